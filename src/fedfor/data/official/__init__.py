"""Official data sets, read from the layouts that their publishers use."""

from .load import NAMES, load
from .root import data_root, use_root

__all__ = ["NAMES", "data_root", "load", "use_root"]

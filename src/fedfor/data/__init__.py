"""What clients see: labelled data, populations over it, and shifts."""

from .availability import Availability
from .bundled import digit_domains, digits
from .calling import Call, Caller
from .concept_shift import ConceptShift
from .dirichlet import DirichletDraws, dirichlet_split
from .files import load_npz
from .groups import by_domain
from .iid import IidDraws, iid_split
from .labelled import DataSplit, LabelledData, Samples
from .long_tail import LongTail
from .population import Partition, Population, TestSet, sample_cohort
from .shards import shards

__all__ = [
    "Availability",
    "Call",
    "Caller",
    "ConceptShift",
    "DataSplit",
    "DirichletDraws",
    "IidDraws",
    "LabelledData",
    "LongTail",
    "Partition",
    "Population",
    "Samples",
    "TestSet",
    "by_domain",
    "digit_domains",
    "digits",
    "dirichlet_split",
    "iid_split",
    "load_npz",
    "sample_cohort",
    "shards",
]

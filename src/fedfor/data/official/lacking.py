from pathlib import Path

from ...errors import DataError
from .images import ImageFiles
from .problems import MissingFileError
from .sets import FOLDERS, SINGLE, open_sources


def lacking(name: str, root: Path) -> Path | None:
    """The first file that the reader of a set needs and does not find."""
    if name not in SINGLE and name not in FOLDERS:
        return None
    try:
        sources, _ = open_sources(name, root, 0)
    except MissingFileError as error:
        return error.path
    except DataError:  # it is there, if broken
        return None
    files = [part for pair in sources.values() for part in pair if isinstance(part, ImageFiles)]
    return next((path for part in files for path in part.paths if not path.exists()), None)

"""Figures as files, the same bytes each time."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError, FolderError
from ...experiments.folder import write_atomically
from .style import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMS: dict[str, dict[str, Any]] = {
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
    ".png": {},
}
"""By the file's ending; what would be another in each file is left out of it."""


def check_path(path: Path) -> None:
    """Before anything is drawn."""
    if path.suffix.lower() not in FORMS:
        raise ConfigError(f"-o {path}: it must end in .pdf, .svg or .png")
    if path.is_dir():
        raise FolderError(f"-o {path}: that is a folder; name a file")
    if not path.absolute().parent.is_dir():
        raise FolderError(f"-o {path}: there is no folder {path.absolute().parent}")


def save(figure: "Figure", path: Path, dpi: int = 300) -> None:
    check_path(path)
    ending, content = path.suffix.lower(), BytesIO()
    with styled():
        figure.savefig(content, format=ending[1:], dpi=dpi, metadata=FORMS[ending])
    try:
        write_atomically(path, content.getvalue())
    except OSError as error:
        raise FolderError(f"-o {path}: it cannot be written ({error.strerror})") from error

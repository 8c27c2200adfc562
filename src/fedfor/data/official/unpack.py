import gzip
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from ...errors import DataError, in_short
from .problems import broken

SUFFIXES = (".tar.gz", ".zip")
BROKEN = (
    EOFError,
    RuntimeError,  # a zip with a password
    gzip.BadGzipFile,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


def unpack(name: str, archive: Path, folder: Path) -> None:
    """All of it into the folder, or nothing of it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpack-", dir=folder) as temporary:
        aside = Path(temporary)
        try:
            if archive.suffix == ".zip":
                _unzip(name, archive, aside)
            else:
                with tarfile.open(archive) as tar:
                    tar.extractall(aside, filter="data")
        except tarfile.FilterError as error:
            raise _evil(name, archive, error.tarinfo.name) from error
        except BROKEN as error:
            raise broken(name, archive, in_short(error)) from error
        found = [path for path in aside.iterdir() if path.name != "__MACOSX"]
        for path in found:
            if (folder / path.name).exists():
                raise DataError(
                    f"{name}: {folder / path.name} is in the way of what {archive} holds; move it "
                    f"away and run 'fedfor data get {name}' again"
                )
        for path in found:
            shutil.move(path, folder / path.name)


def _unzip(name: str, archive: Path, aside: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        for member in packed.namelist():
            inner = PurePosixPath(member)
            if inner.is_absolute() or ".." in inner.parts or "\\" in member or ":" in member:
                raise _evil(name, archive, member)
        packed.extractall(aside)


def _evil(name: str, archive: Path, member: str) -> DataError:
    return DataError(
        f"{name}: {archive} would write outside its folder ({member}), so nothing of it was "
        "unpacked; delete it and get it from another place"
    )

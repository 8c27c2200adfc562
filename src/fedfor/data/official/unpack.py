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
                _untar(name, archive, aside)
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
            if _leads_out(member):
                raise _evil(name, archive, member)
        packed.extractall(aside)


def _untar(name: str, archive: Path, aside: Path) -> None:
    """Files and folders alone. By hand: tarfile's own filters came with Python 3.11.4."""
    with tarfile.open(archive) as packed:
        for member in packed:
            if _leads_out(member.name) or not (member.isreg() or member.isdir()):
                raise _evil(name, archive, member.name)
            target = aside / member.name
            (target if member.isdir() else target.parent).mkdir(parents=True, exist_ok=True)
            if (content := packed.extractfile(member)) is not None:
                with content, target.open("wb") as file:
                    shutil.copyfileobj(content, file)


def _leads_out(member: str) -> bool:
    inner = PurePosixPath(member)
    return inner.is_absolute() or ".." in inner.parts or "\\" in member or ":" in member


def _evil(name: str, archive: Path, member: str) -> DataError:
    return DataError(
        f"{name}: {archive} would write outside its folder ({member}), so nothing of it was "
        "unpacked; delete it and get it from another place"
    )

import errno
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from ...errors import DataError, in_short
from .problems import broken, is_filled

OF_THE_ARCHIVE = (None, errno.EEXIST, errno.EINVAL, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG)
"""What its contents cause, as a file and a folder of one name do; the others are the disk's."""


def unpack(name: str, archive: Path, folder: Path, wanted: Sequence[str]) -> None:
    """All of it into the folder, or nothing of it: one of those that are wanted must be in it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpack-", dir=folder) as temporary:
        aside = Path(temporary)
        try:
            if archive.suffix == ".zip":
                _unzip(name, archive, aside)
            else:
                _untar(name, archive, aside)
        except DataError:
            raise
        except OSError as error:
            if error.errno not in OF_THE_ARCHIVE:
                raise
            raise broken(name, archive, _clash(error) or in_short(error)) from error
        except Exception as error:  # a broken archive can raise anything
            raise broken(name, archive, in_short(error)) from error
        if not any((aside / place).exists() for place in wanted):
            raise DataError(
                f"{name}: {archive} has no {wanted[0]} in it, so nothing of it was unpacked; it "
                f"is another file: delete it and run 'fedfor data get {name}' again"
            )
        found = [path for path in aside.iterdir() if path.name != "__MACOSX"]
        for path in found:
            place = folder / path.name
            if place.exists() and (place.is_file() or is_filled(place)):
                raise DataError(
                    f"{name}: {place} is in the way of what {archive} holds; move it "
                    f"away and run 'fedfor data get {name}' again"
                )
        for path in found:
            place = folder / path.name
            if place.exists():
                place.rmdir()  # move would go into it
            shutil.move(path, place)


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


def _clash(error: OSError) -> str | None:
    if isinstance(error, (FileExistsError, IsADirectoryError, NotADirectoryError)):
        return "it has a file and a folder of one name"
    return None


def _leads_out(member: str) -> bool:
    inner = PurePosixPath(member)
    return inner.is_absolute() or ".." in inner.parts or "\\" in member or ":" in member


def _evil(name: str, archive: Path, member: str) -> DataError:
    return DataError(
        f"{name}: {archive} would write outside its folder ({member}), so nothing of it was "
        "unpacked; delete it and get it from another place"
    )

from collections.abc import Callable
from pathlib import Path, PurePath

from ...errors import DataError, in_short
from .catalogue import CATALOGUE, Download
from .download import OnBytes, fetch, wrong_checksum
from .lacking import lacking
from .load import require_name
from .problems import is_filled
from .unpack import unpack

Say = Callable[[str], None]


def get(name: str, root: Path, say: Say, on_bytes: OnBytes) -> None:
    """Download what is not there, and unpack it."""
    require_name(name)
    entry = CATALOGUE[name]
    try:
        for part in entry.parts:
            if (sentence := _by_hand(part, root)) is not None:
                say(f"{sentence}; until then digits that are rendered here stand in for it")
            else:
                get(part, root, say, on_bytes)
        for item in entry.downloads:
            _get(name, item, root, say, on_bytes)
    except OSError as error:
        raise DataError(
            f"{name}: cannot read or write in {root} ({in_short(error)}); see that there is room "
            f"and that you may write there, and run 'fedfor data get {name}' again"
        ) from error


def made(item: Download, root: Path) -> Path | None:
    """What the download makes, if it is there; an empty folder is nothing."""
    places = [root / place for place in item.makes or (item.path,)]
    return next((place for place in places if place.is_file() or is_filled(place)), None)


def _get(name: str, item: Download, root: Path, say: Say, on_bytes: OnBytes) -> None:
    if (there := made(item, root)) is not None:
        _require_whole(name, item, root, there, f"{there}")
        say(f"{there} is there already")
        return
    if (sentence := _by_hand(name, root)) is not None:
        raise DataError(sentence)
    target = root / item.path
    put_there = target.is_file()
    if not put_there:
        fetch(name, item, root, on_bytes)
    elif (found := wrong_checksum(target, item.checksum)) is not None:
        raise DataError(
            f"{name}: {target} has the checksum {found}, not {item.checksum}; put the right file "
            f"there, or delete it and run 'fedfor data get {name}' again"
        )
    if item.is_archive:
        wanted = [str(PurePath(place).relative_to(item.folder)) for place in item.makes]
        unpack(name, target, root / item.folder, wanted)
        if (there := made(item, root)) is not None:
            _require_whole(name, item, root, there, f"{there} and {target}, which has it not,")
        if not put_there:
            target.unlink()
    unchecked = "" if item.checksum else " (not checked: the publisher gives no checksum)"
    say(f"{made(item, root)} is there{unchecked}")


def _require_whole(name: str, item: Download, root: Path, there: Path, in_the_way: str) -> None:
    if not item.is_archive:
        return
    path = lacking(name, root)
    if path is not None and path.is_relative_to(there if there.is_dir() else there.parent):
        raise DataError(
            f"{name}: {there} is not complete, there is no {path}; delete {in_the_way} and run "
            f"'fedfor data get {name}' again"
        )


def _by_hand(name: str, root: Path) -> str | None:
    """What to do by hand, if something is left to do."""
    for item in CATALOGUE[name].downloads:
        target = root / item.path
        if item.by_hand and made(item, root) is None and not target.is_file():
            return (
                f"{name}: its publisher gives it by hand only: open {item.url} in a browser, put "
                f"{item.name} into {target.parent} and run 'fedfor data get {name}' again"
            )
    return None

from collections.abc import Callable
from pathlib import Path

from ...errors import DataError
from .catalogue import CATALOGUE, Download
from .download import OnBytes, fetch, wrong_checksum
from .load import require_name
from .unpack import SUFFIXES, unpack

Say = Callable[[str], None]


def get(name: str, root: Path, say: Say, on_bytes: OnBytes) -> None:
    """Download what is not there, and unpack it."""
    require_name(name)
    entry = CATALOGUE[name]
    for part in entry.parts:
        if (sentence := _by_hand(part, root)) is not None:
            say(f"{sentence}; until then digits that are rendered here stand in for it")
        else:
            get(part, root, say, on_bytes)
    for item in entry.downloads:
        _get(name, item, root, say, on_bytes)


def made(item: Download, root: Path) -> Path | None:
    """What the download makes, if it is there."""
    places = [root / place for place in item.makes or (item.path,)]
    return next((place for place in places if place.exists()), None)


def _get(name: str, item: Download, root: Path, say: Say, on_bytes: OnBytes) -> None:
    if (there := made(item, root)) is not None:
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
    if target.name.endswith(SUFFIXES):
        unpack(name, target, root / item.folder)
        if made(item, root) is None:
            raise DataError(f"{name}: {target} has no {item.makes[0]} in it; it is another file")
        if not put_there:
            target.unlink()
    unchecked = "" if item.checksum else " (not checked: the publisher gives no checksum)"
    say(f"{made(item, root)} is there{unchecked}")


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

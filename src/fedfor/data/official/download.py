"""Files of the publishers: fetched, gone on with after a break, and checked."""

import hashlib
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from ... import __version__
from ...errors import DataError, in_short
from .catalogue import Download

SECONDS = 30
"""How long a silent server is waited for."""
BLOCK = 1 << 18
OnBytes = Callable[[str, int, int | None], None]
"""Told a file's name, how many bytes are here, and of how many."""


def fetch(name: str, item: Download, root: Path, on_bytes: OnBytes) -> Path:
    """The file, under its name only when it is whole and its checksum right.

    Until then it is NAME.part, which the next call goes on with.
    """
    target = root / item.path
    part = target.with_name(f"{target.name}.part")
    ended = _receive(name, item, target, part, on_bytes)
    if (found := wrong_checksum(part, item.checksum)) is not None:
        if not ended:
            raise _broke_off(name, item, f"{part.stat().st_size:,} bytes")
        part.unlink()
        raise DataError(
            f"{name}: what {item.url} sent has the checksum {found}, not {item.checksum}, and was "
            f"removed; run 'fedfor data get {name}' again, or put the right file at {target}"
        )
    part.replace(target)
    return target


def wrong_checksum(path: Path, checksum: str | None) -> str | None:
    """What the checksum is, if it is not this one."""
    if checksum is None:
        return None
    kind = checksum.partition(":")[0]
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False))
    found = f"{kind}:{digest.hexdigest()}"
    return None if found == checksum else found


def _receive(name: str, item: Download, target: Path, part: Path, on_bytes: OnBytes) -> bool:
    """Whether it surely has its end: where no length is told, a break may look like it."""
    have = part.stat().st_size if part.exists() else 0
    try:
        response = _ask(item.url, have)
    except HTTPError as error:
        error.close()
        if error.code != 416 or not have:
            raise _no_way(name, item, target, f"answers {error.code} {error.reason}") from error
        if error.headers.get("Content-Range") != f"bytes */{have}":
            return _start_over(name, item, target, part, on_bytes)
        return True  # all of it was here already
    except (OSError, HTTPException) as error:
        cause = getattr(error, "reason", error)
        why = in_short(cause if isinstance(cause, OSError) else error)
        raise _no_way(name, item, target, f"cannot be reached ({why})") from error
    with response:
        goes_on = response.status == 206
        if goes_on and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            return _start_over(name, item, target, part, on_bytes)
        return _write(name, item, response, part, have if goes_on else 0, on_bytes)


def _ask(url: str, have: int) -> HTTPResponse:
    headers = {"User-Agent": f"fedfor/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    response: HTTPResponse = urlopen(Request(url, headers=headers), timeout=SECONDS)
    return response


def _start_over(name: str, item: Download, target: Path, part: Path, on_bytes: OnBytes) -> bool:
    part.unlink()
    return _receive(name, item, target, part, on_bytes)


def _write(
    name: str, item: Download, response: HTTPResponse, part: Path, start: int, on_bytes: OnBytes
) -> bool:
    length = response.headers.get("Content-Length", "")
    total = start + int(length) if length.isdecimal() else None
    done = start
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("ab" if start else "wb") as file:
        while block := _block(response):
            file.write(block)
            done += len(block)
            on_bytes(item.name, done, total)
    if block is None or (total is not None and done < total):
        of = "" if total is None else f" of {total:,}"
        raise _broke_off(name, item, f"{done:,}{of} bytes")
    return total is not None or response.chunked


def _block(response: HTTPResponse) -> bytes | None:
    """Empty at the end; None where the connection breaks."""
    try:
        return response.read(BLOCK)
    except (OSError, HTTPException):
        return None


def _broke_off(name: str, item: Download, after: str) -> DataError:
    return DataError(
        f"{name}: {item.url} broke off after {after}; run 'fedfor data get {name}' again to go on "
        "from there"
    )


def _no_way(name: str, item: Download, target: Path, what: str) -> DataError:
    return DataError(
        f"{name}: {item.url} {what}; get the file in another way, put it at {target} and run "
        f"'fedfor data get {name}' again"
    )

"""The live page and its data, made when somebody asks and something is new."""

import hashlib
import html
import json
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from ..report.loading import LoadedRun
from ..report.page import page_html
from ..report.page_data import page_data
from .follow import Follower
from .status import Status

Json = dict[str, Any]

REFRESH = 1.0
"""Seconds after which a page asks again."""
LEAST, REST = 0.5, 10
"""Seconds at least between two times that all data are made, and times what that takes of a core:
10 % of one at most, and while nobody looks nothing. In between, the page is told how runs stand."""

Build = Callable[[Sequence[LoadedRun], str], Json]

NOTHING_YET = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="1">
<title>{title}</title>
<style>:root {{ color-scheme: light dark }} body {{ font: 1rem system-ui, sans-serif }}</style>
</head>
<body><h1>{title}</h1><p role="status" data-state="{state}">{words}</p></body>
</html>
"""


class LivePage:
    """Of one folder. Several threads may ask."""

    def __init__(
        self, follower: Follower, build: Build = page_data, draw: Callable[[Json], str] = page_html
    ) -> None:
        self.follower, self._build, self._draw = follower, build, draw
        self.title = follower.path.name or str(follower.path)
        self._lock = threading.Lock()
        self._mine = secrets.token_hex(4)  # so that a page knows when it has another's data
        self._built: Json = {}
        self._revision = -1
        self._next = 0.0

    def page(self) -> str:
        """The whole page. While there is no run it says so, and comes again by itself."""
        with self._lock:
            status = self.follower.look()
            if not status.runs:
                words, title = html.escape(status.words), html.escape(self.title)
                return NOTHING_YET.format(title=title, state=status.state, words=words)
            self._make()
            return self._draw(self._whole(status))

    def data(self, seen: str = "") -> str | None:
        """What a page that has `seen` lacks, as JSON: all, or how runs stand alone; or None."""
        with self._lock:
            status = self.follower.look()
            if status.runs:
                self._make()
            live = self._live(status)
            if seen == live["version"]:
                return None
            has_data = seen.rpartition(".")[0] == self._data_version()
            found = {"live": live} if has_data or not status.runs else self._whole(status)
        return json.dumps(found, separators=(",", ":"), allow_nan=False)

    def _make(self) -> None:
        """The data of all runs, unless they are the same or were just made."""
        revision = self.follower.revision
        if revision == self._revision or time.monotonic() < self._next:
            return
        began = time.thread_time()
        self._built = self._build(self.follower.runs, self.title)
        self._revision = revision
        rest = REST * (time.thread_time() - began)
        self._next = time.monotonic() + max(LEAST, rest)

    def _whole(self, status: Status) -> Json:
        return {**self._built, "live": self._live(status)}

    def _data_version(self) -> str:
        return f"{self._mine}.{self._revision}"

    def _live(self, status: Status) -> Json:
        stands = asdict(status)
        content = hashlib.sha256(json.dumps(stands).encode()).hexdigest()[:12]
        return {**stands, "version": f"{self._data_version()}.{content}", "refresh": REFRESH}

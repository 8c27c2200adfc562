"""The page itself: one file with all it needs, which opens offline and loads nothing."""

import html
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..errors import FolderError
from ..experiments.folder import write_atomically
from .loading import load_runs
from .page_data import page_data

SCRIPTS = (
    "basics.js",
    "chart.js",
    "series.js",
    "curves.js",
    "table.js",
    "target.js",
    "parts.js",
    "traffic.js",
    "participation.js",
    "cohort.js",
    "agreement.js",
    "settings.js",
    "runs.js",
    "live.js",
    "main.js",
)

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src {connect}; base-uri 'none'; form-action 'none'"
)
"""What a browser may load: nothing from anywhere, but for the live page its own data."""


def write_page(paths: Sequence[Path], to: Path, title: str | None = None) -> int:
    """A report of all runs in these places; returns how many there are."""
    runs = load_runs(paths)
    if not any(run.records for run in runs):
        where = ", ".join(map(str, paths))
        raise FolderError(f"no run in {where} has a finished round yet; there is nothing to show")
    _require_writable(to)
    named = title or " and ".join(path.stem or path.name for path in paths[:3]) or "runs"
    content = page_html(page_data(runs, named))
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(to, content.encode(errors="replace"))
    except OSError as error:
        raise FolderError(f"the report cannot be written to {to} ({error})") from error
    return len(runs)


def _require_writable(to: Path) -> None:
    """Refuse to put the page in the place of anything that is no page."""
    if to.suffix.lower() not in (".html", ".htm"):
        raise FolderError(f"the report {to} must end in .html; name another file with -o")
    if to.exists() and not to.is_file():
        raise FolderError(f"{to} is there and is no file; name another with -o")


def page_html(payload: dict[str, Any]) -> str:
    """The whole page. With `live` in the payload it asks where it came from for new data."""
    policy = POLICY.format(connect="'self'" if "live" in payload else "'none'")
    scripts = "\n".join(_part(name) for name in SCRIPTS)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">
<title>{html.escape(str(payload["title"]))}</title>
<style>
{_part("style.css")}</style>
</head>
<body>
<div id="app"></div>
<noscript>This page draws its pictures with JavaScript, which is switched off here.</noscript>
<script type="application/json" id="data">{_embedded(payload)}</script>
<script>
(() => {{
"use strict";
{scripts}}})();
</script>
</body>
</html>
"""


def _part(name: str) -> str:
    return files("fedfor.report").joinpath("page", name).read_text(encoding="utf-8")


def _embedded(payload: dict[str, Any]) -> str:
    """JSON in which nothing can end the script element around it."""
    text = json.dumps(payload, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

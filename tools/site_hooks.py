"""Let the links that leave docs/ work on the site as they do in the repository.

The site is made of docs/ alone. So what its pages link to beside it is shown under repository/: a
source file as a page with its text, a notebook with what it showed, a folder as a list of its
files, figures as they are. A link to what is not there stays as it is, and the strict build fails.
"""

import posixpath
import re
import sys
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT))  # MkDocs runs a hook as a file, not as a part of tools

from tools.site_notebook import fenced, notebook_markdown  # noqa: E402

DOCS, SHOWN = "docs", "repository"
LANGUAGES = {".py": "python", ".toml": "toml", ".cff": "yaml", ".yml": "yaml", ".ini": "ini"}
FENCED = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r'(?P<open>\]\(|\bsrc=")(?P<path>[^)"#\s]+)')
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"

_origins: dict[str, str] = {}
"""Of each page, the place in the repository that its links start from."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    _origins.clear()
    waiting = []
    for file in files.documentation_pages():
        _origins[file.src_uri] = f"{DOCS}/{file.src_uri}"
        waiting += _targets(file.content_string, _origins[file.src_uri])
    while waiting:
        path = waiting.pop()
        uri = _uri(path)
        if uri is None or path == DOCS or path.startswith(f"{DOCS}/") or uri in files.src_uris:
            continue
        if not uri.endswith(".md"):
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
            continue
        text, origin = _page(path)
        if origin is not None:
            _origins[uri] = origin
            waiting += _targets(text, origin)
        files.append(File.generated(config, uri, content=UNSEARCHED + text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    origin = _origins.get(page.file.src_uri)
    if origin is None:  # a source file's page
        return markdown
    here = posixpath.dirname(page.file.src_uri) or "."

    def moved(match: re.Match[str]) -> str:
        uri = _uri(_resolved(match["path"], origin))
        same = origin.startswith(f"{DOCS}/") and uri in (None, match["path"])
        if same or uri is None or uri not in files.src_uris:
            return match[0]
        return match["open"] + posixpath.relpath(uri, here)

    return _outside_code(markdown, moved)


def _targets(markdown: str, origin: str) -> list[str]:
    """What a page links to, as paths in the repository."""
    prose = FENCED.sub("", markdown)
    return [_resolved(found["path"], origin) for found in LINK.finditer(prose)]


def _resolved(link: str, origin: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), link))


def _uri(path: str) -> str | None:
    """Where on the site a file or folder of the repository is found; none if it is not there."""
    there = ROOT / path
    if path.startswith("..") or ":" in path or not there.exists():
        return None
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    if there.is_dir():
        return f"{SHOWN}/{path}/files.md"
    if there.suffix in LANGUAGES or there.suffix in ("", ".ipynb"):
        return f"{SHOWN}/{path}.md"
    return f"{SHOWN}/{path}"


def _page(path: str) -> tuple[str, str | None]:
    """The text of a page for a file or folder, and where links in it start, if it has any."""
    there = ROOT / path
    if there.is_dir():
        children = sorted(p for p in there.iterdir() if p.name[0] not in "._" or p.suffix == ".py")
        lines = [f"- [{p.name}{'/' * p.is_dir()}]({p.name})" for p in children]
        return "\n".join([f"# {path}", "", *lines]), f"{path}/files.md"
    text = there.read_text(encoding="utf-8")
    if there.suffix == ".md":
        return text, path
    if there.suffix == ".ipynb":
        return notebook_markdown(text), path
    return f"# {path}\n\n{fenced(text, LANGUAGES.get(there.suffix, 'text'))}\n", None


def _outside_code(markdown: str, replace: Callable[[re.Match[str]], str]) -> str:
    parts, at = [], 0
    for code in FENCED.finditer(markdown):
        parts += [LINK.sub(replace, markdown[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*parts, LINK.sub(replace, markdown[at:])])

"""docs/ as a site: it builds with every link leading somewhere, and asks nothing of the network."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.browser import browser, opened_tab
from tests.processes import HANG

__all__ = ["browser"]

ROOT = Path(__file__).parent.parent
FETCHED = re.compile(r'<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)="(https?:|//)[^"]*"')


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    words = ["-m", "mkdocs", "build", "--strict", "--config-file", str(config), "-d", str(site)]
    return subprocess.run(
        [sys.executable, *words],
        cwd=config.parent,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        timeout=HANG,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_builds_with_every_page(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs")).with_suffix(".html").is_file()


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not FETCHED.search(page.read_text(encoding="utf-8")), page


def test_no_block_of_code_is_left_as_text(site: Path) -> None:
    for page in site.glob("*.html"):
        assert "```" not in page.read_text(encoding="utf-8"), page


def test_the_equation_of_a_notebook_is_drawn(site: Path) -> None:
    page = next(site.rglob("fedfor-in-ten-minutes*.html")).read_text(encoding="utf-8")
    assert "<math" in page
    assert "$$" not in page


def test_what_lies_beside_the_docs_is_shown(site: Path) -> None:
    results = (site / "results.html").read_text(encoding="utf-8")
    assert 'href="repository/results/files.html"' in results
    listed = (site / "repository/results/files.html").read_text(encoding="utf-8")
    assert 'href="prior-shift.json"' in listed
    assert (site / "repository/results/prior-shift.json").read_bytes()
    source = site / "repository/src/fedfor/algorithms/fedfor.py.html"
    assert "fedfor_gradient" in source.read_text(encoding="utf-8")
    notebook = site / "repository/notebooks/fedfor-in-ten-minutes.ipynb.html"
    assert "data:image/png;base64," in notebook.read_text(encoding="utf-8")
    readme = (site / "repository/index.html").read_text(encoding="utf-8")
    assert 'href="../flower.html"' in readme
    assert 'src="../images/' in readme


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_site_opens_from_its_folder_offline(
    site: Path, browser: Any, width: int, scheme: str
) -> None:
    with opened_tab(browser, width, scheme) as tab:
        for name in ("index", "choosing", "results", "algorithms/fedfor", "reference/cli"):
            tab.page.goto((site / f"{name}.html").as_uri())
            wider = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            assert not tab.page.evaluate(wider), name
        tab.page.locator(".md-typeset__scrollwrap table").first.wait_for()
        assert tab.errors == []
        assert all(url.startswith(("file:", "data:", "blob:")) for url in tab.requests)


def test_the_search_works_without_a_server(site: Path, browser: Any) -> None:
    with opened_tab(browser) as tab:
        tab.page.goto((site / "index.html").as_uri())
        tab.page.locator("[data-md-component=search-query]").fill("server momentum")
        tab.page.locator(".md-search-result__item a[href*=fedavgm]").first.wait_for()
        assert tab.errors == []


@pytest.mark.parametrize(
    "link",
    ["../src/fedfor/nothing.py", "../nowhere", "nothing.md", "index.md#nothing", "../../etc"],
)
def test_a_link_to_nothing_fails_the_build(tmp_path: Path, link: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text(f"# Here\n\n[there]({link})\n")
    (tmp_path / "mkdocs.yml").write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\n"
        f"hooks: ['{ROOT / 'tools/site_hooks.py'}']\n"
        "nav: [index.md]\n"
    )
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0
    assert link in done.stderr

"""The code in the docs runs, block after block, in an empty folder; generated pages are current."""

import itertools
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tools.printed import filled

from fedfor.experiments.comparison import Comparison
from fedfor.experiments.load import load_config, read_toml

from .processes import HANG

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r'^```python(?: title="(\S+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")

PRINTED = [page for page in PAGES if "<!-- printed -->" in page.read_text()]
WITH_CODE = [p for p in PAGES if any(not title for title, _ in BLOCK.findall(p.read_text()))]
ALGORITHMS = sorted((ROOT / "docs/algorithms").glob("*.md"))


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def on_a_cluster(page: Path) -> Any:
    """What this page shows starts one."""
    return pytest.param(page, marks=pytest.mark.cluster) if page.stem == "scale" else page


@pytest.mark.parametrize("page", [on_a_cluster(page) for page in WITH_CODE], ids=name)
def test_code_runs(page: Path, tmp_path: Path) -> None:
    scripts = []
    for title, code in BLOCK.findall(page.read_text()):
        (tmp_path / (title or f"block{len(scripts)}.py")).write_text(code)
        if not title:
            scripts.append(f"block{len(scripts)}.py")
    assert scripts
    for script in scripts:
        subprocess.run([sys.executable, script], cwd=tmp_path, check=True, timeout=HANG)


def test_a_new_algorithm_is_twenty_lines() -> None:
    page = (ROOT / "docs/new-algorithm.md").read_text()
    code = next(code for title, code in BLOCK.findall(page) if title == "anchor.py")
    body = code[code.index("@dataclass") :]
    assert len([line for line in body.splitlines() if line.strip()]) <= 20


def test_the_new_algorithm_runs_from_the_command_line(tmp_path: Path) -> None:
    page = (ROOT / "docs/new-algorithm.md").read_text()
    for title, code in BLOCK.findall(page):
        if title:
            (tmp_path / title).write_text(code)
    words = ["-m", "fedfor.cli", "compare", "prior-shift", "-a", "fedavg", "-a"]
    words += ["anchor:Anchor+fedadam,mu=0.5,server.lr=0.02", "--seeds", "1", "--out", "c"]
    words += ["--set", "rounds=2", "--set", "model.name=linear"]
    subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=HANG,
    )
    table = (tmp_path / "c/table.md").read_text()
    assert "anchor:Anchor+fedadam,mu=0.5,server.lr=0.02" in table


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if not link.startswith(("http://", "https://")):
            assert (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PRINTED, ids=name)
def test_tables_are_what_their_commands_print(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert filled(page.read_text()) == page.read_text()


def test_generated_pages_are_what_the_code_says() -> None:
    done = run("-m", "tools.reference", "--check")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ALGORITHMS, ids=name)
def test_commands_of_an_algorithms_page_are_understood(page: Path, tmp_path: Path) -> None:
    commands = [shlex.split(line) for line in re.findall("^fedfor .*$", page.read_text(), re.M)]
    assert [command[1] for command in commands] == ["run", "compare"]
    for _, verb, config, *options in commands:
        given = [
            value for option, value in itertools.pairwise(options) if option in ("--set", "-a")
        ]
        if verb == "run":
            assert load_config(read_toml(config), given).algorithm["name"] in page.read_text()
        else:
            choice = {"algorithms": given, "seeds": 3}
            tables = {**read_toml(config), "compare": choice}
            assert len(Comparison(tables, tmp_path / "c", source=config).runs) == 3 * len(given)


def test_the_picture_of_the_idea_shows_what_its_page_says() -> None:
    from tools.draw_idea import joint_best, rounds

    plain, held = rounds().values()
    assert plain.start.equal(held.start)
    assert (held.end - joint_best()).norm() < (plain.end - joint_best()).norm()
    against = [
        ((one.before - one.start) * (one.paths[0] - one.start)).max() for one in (plain, held)
    ]
    assert against[1] < against[0] / 2


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=HANG
    )

"""The code in the docs runs, block after block, in an empty folder."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")

PRINTED = [page for page in PAGES if "<!-- printed -->" in page.read_text()]
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda p: p.name)
def test_code_runs(page: Path, tmp_path: Path) -> None:
    scripts = []
    for name, code in BLOCK.findall(page.read_text()):
        (tmp_path / (name or f"block{len(scripts)}.py")).write_text(code)
        if not name:
            scripts.append(f"block{len(scripts)}.py")
    assert scripts
    for script in scripts:
        subprocess.run([sys.executable, script], cwd=tmp_path, check=True)


def test_a_new_algorithm_is_twenty_lines() -> None:
    page = (ROOT / "docs/new-algorithm.md").read_text()
    code = next(code for name, code in BLOCK.findall(page) if name == "anchor.py")
    body = code[code.index("@dataclass") :]
    assert len([line for line in body.splitlines() if line.strip()]) <= 20


def test_the_new_algorithm_runs_from_the_command_line(tmp_path: Path) -> None:
    page = (ROOT / "docs/new-algorithm.md").read_text()
    for name, code in BLOCK.findall(page):
        if name:
            (tmp_path / name).write_text(code)
    words = ["-m", "fedfor.cli", "compare", "prior-shift", "-a", "fedavg", "-a"]
    words += ["anchor:Anchor+fedadam,mu=0.5,server.lr=0.02", "--seeds", "1", "--out", "c"]
    words += ["--set", "rounds=2", "--set", "model.name=linear"]
    subprocess.run([sys.executable, *words], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    table = (tmp_path / "c/table.md").read_text()
    assert "anchor:Anchor+fedadam,mu=0.5,server.lr=0.02" in table


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if not link.startswith(("http://", "https://")):
            assert (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PRINTED, ids=lambda p: p.name)
def test_tables_are_what_their_commands_print(page: Path) -> None:
    words = ["-m", "tools.printed", str(page.relative_to(ROOT)), "--check"]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

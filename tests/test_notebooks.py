"""The notebooks run from start to end in an empty folder, and are kept as they ran."""

import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from tools.notebooks import NOTEBOOKS, executed, main, places, texts

import fedfor

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\]\((?!https?://)([^)#\s]+)(?:#([^)]+))?\)")
MOST = 400_000
"""Bytes of a notebook with its pictures."""


def read(name: str) -> NotebookNode:
    return nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)


def source(notebook: NotebookNode, name: str) -> str:
    return next(str(cell.source) for cell in notebook.cells if cell.id == name)


def outputs(notebook: NotebookNode) -> list[NotebookNode]:
    return [o for cell in notebook.cells for o in cell.get("outputs", ())]


def errors(notebook: NotebookNode) -> list[NotebookNode]:
    """Exceptions, and what commands say before they fail. Warnings of other packages are none."""

    def failed(output: NotebookNode) -> bool:
        return output.output_type == "error" or "error:" in output.get("text", "")

    return [output for output in outputs(notebook) if failed(output)]


def rows(table: str) -> dict[str, list[str]]:
    """The cells of a table in Markdown, by the first of each line."""
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    split = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {first: others for first, *others in split}


def test_fedfor_in_ten_minutes_runs_and_compares_both_methods(tmp_path: Path) -> None:
    shown = executed(ROOT / "notebooks/fedfor-in-ten-minutes.ipynb", tmp_path)
    assert not errors(shown)
    assert len(texts(shown, "image/png")) == 5
    code, first, last = texts(shown, "text/markdown")
    assert "def fedfor_gradient(" in code
    assert list(rows(first)) == ["FedAvg", "FedFOR"]
    assert list(rows(last)) == ["FedAvg", "FedFOR", "one-sided FedProx", "FedAvgM"]
    for mean, _best, *_ in rows(last).values():
        assert re.fullmatch(r"\d+\.\d \(\d+\.\d\)", mean)
    assert any("FedFOR is ahead in" in text for text in texts(shown, "text/plain"))


def test_your_own_data_runs_and_leaves_a_table_a_report_and_a_figure(tmp_path: Path) -> None:
    shown = executed(ROOT / "notebooks/your-own-data.ipynb", tmp_path)
    assert not errors(shown)
    paper, partitions, compared = texts(shown, "text/markdown")
    assert "FedFOR, published" in rows(paper)
    assert list(rows(partitions)) == ["Dirichlet(0.1)", "Dirichlet(1)", "IID"]
    assert list(rows(compared)) == ["fedavg", "fedavgm", "fedfor"]
    made = tmp_path / "own-data"
    assert (made / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (made / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert len(list(made.glob("runs/mine/runs/*/seed-*/summary.json"))) == 9


def test_without_a_checkout_the_papers_table_is_missed_loudly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fedfor, "__file__", str(tmp_path / "a/site-packages/fedfor/__init__.py"))
    names: dict[str, object] = {}
    cells = read("your-own-data")
    exec("\n".join(source(cells, name) for name in ("setup", "paper-table")), names)
    shown = eval("papers_table().data", names)
    assert "NOT SHOWN" in shown
    assert "fedfor reproduce prior-shift" in shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_is_kept_as_it_ran_and_without_a_trace_of_the_machine(path: Path) -> None:
    kept = nbformat.read(path, as_version=4)
    assert path.stat().st_size < MOST
    code = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [o for o in outputs(kept) if o.output_type == "error" or o.get("name") == "stderr"]
    assert texts(kept, "image/png")
    assert not places(kept)
    assert all(not cell.metadata for cell in kept.cells)  # no times
    assert kept.metadata["kernelspec"]["name"] == "python3"
    assert kept.metadata["language_info"] == {"name": "python"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_its_links_lead_somewhere(path: Path) -> None:
    words = [c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "markdown"]
    links = LINK.findall("\n".join(words))
    assert links
    for link, anchor in links:
        page = path.parent / link
        assert page.exists(), link
        assert not anchor or anchor in anchors(page), f"{link}#{anchor}"


def anchors(page: Path) -> set[str]:
    """As GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    ("code", "told"),
    [("1 / 0", "ZeroDivisionError"), ("print('file:///etc')", "shows a place on this machine")],
    ids=["an error", "a place"],
)
def test_the_tool_refuses(
    code: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "bad.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)]), path)
    before = path.read_bytes()
    monkeypatch.setattr("sys.argv", ["notebooks", str(path)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code
    assert told in capsys.readouterr().err
    assert path.read_bytes() == before

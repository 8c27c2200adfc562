"""Figures as files: any names, any number of methods, on the paper that there is."""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from fedfor.experiments.comparison import AlgorithmResult, PlannedRun
from fedfor.experiments.folder import RunFolder
from fedfor.report.comparison import _draw_curves
from fedfor.report.plots.asked import Asked
from fedfor.report.plots.kinds import KINDS
from fedfor.report.plots.save import save
from fedfor.report.plots.text import all_fitted, fitted, inches, plain
from tests.conftest import Cli

from .made import made_cohort, made_comparison, made_run
from .test_plot import RESULTS, asked, legend

ODD = [
    "<b>bold</b> & \"quotes\" 'x'",
    "$a_1$ costs $ 5 {\\alpha} %",
    "_hidden",
    "\U0001f680 \u673a \u202e\x07 e\u0301",
    "line\nbreak\ttab",
    "x" * 300,
    "fedfor,alpha=2," + "training.augment=flip;" * 13,
    "fedfor,alpha=3," + "training.augment=flip;" * 13,
]


def told(t: int) -> dict[str, Any]:
    return {"cosine": 0.5, "opposing": 0.1, "classes": [t / 10, t / 9], "state_bytes": 1000 * t}


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cohort = made_cohort([[3, 4], [0, 9]], ["<i>a</i>" * 20, "\U0001f680 $x$"])
    path = tmp_path_factory.mktemp("odd") / "c"
    return made_comparison(path, ODD, seeds=2, extra=told, cohort=cohort, target=0.3)


@pytest.fixture(scope="module")
def twenty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    labels = ["fedavg", *(f"fedfor,alpha={k},training.lr=0.{k}" for k in range(1, 20))]
    path = tmp_path_factory.mktemp("twenty") / "c"
    return made_comparison(path, labels, seeds=2, extra=told, target=0.5, rounds=3)


def require_fits(figure: Figure) -> None:
    """Nothing runs out of the figure, and the legend lies on no panel."""
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert box.x0 >= -0.02
    assert box.y0 >= -0.02
    assert box.x1 <= width + 0.02
    assert box.y1 <= height + 0.02
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    for one in figure.legends:
        for axes in figure.axes:
            assert not one.get_window_extent(renderer).overlaps(axes.get_window_extent(renderer))


@pytest.mark.parametrize("width", [2.0, 3.35, 7.0])
@pytest.mark.parametrize("what", KINDS)
def test_odd_names_fit_on_the_paper(odd: Path, what: str, width: float) -> None:
    figure = KINDS[what].draw(asked(odd, width=width, title="A title " * 20))
    assert figure.get_size_inches()[0] == width
    require_fits(figure)


@pytest.mark.parametrize("what", [what for what in KINDS if what != "cohort"])
def test_twenty_methods_fit_on_the_paper(twenty: Path, what: str) -> None:
    figure = KINDS[what].draw(asked(twenty))
    require_fits(figure)
    texts = {text.get_text().replace("\n", "") for text in _texts(figure)}
    assert {"fedavg", "fedfor,alpha=19,training.lr=0.19"} <= texts


def _texts(figure: Figure) -> list[Any]:
    rows = [text for axes in figure.axes for text in axes.get_yticklabels()]
    return rows + [text for one in figure.legends for text in one.get_texts()]


def test_a_study_fits_on_the_paper() -> None:
    for draw in (KINDS["curves"].draw, KINDS["bytes"].draw):
        require_fits(draw(asked(RESULTS)))


def test_odd_names_are_text(odd: Path) -> None:
    names = legend(KINDS["curves"].draw(asked(odd)))
    assert names[:5] == [
        "<b>bold</b> & \"quotes\" 'x'",
        "$a_1$ costs $ 5 {\\alpha} %",
        "_hidden",
        "[U+1F680] [U+673A] [U+202E][U+0007] e\u0301",
        "line break tab",
    ]
    assert len(set(names)) == len(names)  # though those of 300 characters are cut
    assert all("…" in name for name in names[5:8])


def test_text_is_broken_where_it_can_be_and_cut_where_it_must() -> None:
    assert fitted("fedfor,alpha=2", 10, 7) == "fedfor,alpha=2"
    assert fitted("fedfor,alpha=2", inches("alpha=2", 7), 7) == "fedfor,\nalpha=2"
    lines = fitted("ab" * 200, 1, 7, 2).split("\n")
    assert len(lines) == 2
    assert all(inches(text, 7) <= 1 for text in lines)
    assert fitted("x" * 50, 0.01, 7, 2)  # no room at all is no endless search
    alike = [f"{'x' * 100}{end}{'x' * 100}" for end in "ab"]
    assert len(set(all_fitted(alike, 1, 7, 1))) == 2
    assert plain("\ud83d") == "[U+D83D]"


@pytest.mark.parametrize("ending", ["pdf", "svg", "png"])
def test_files_are_the_same_bytes_each_time(odd: Path, tmp_path: Path, ending: str) -> None:
    written = []
    for name in ("a", "b"):
        path = tmp_path / f"{name}.{ending}"
        save(KINDS["curves"].draw(asked(odd)), path)
        written.append(path.read_bytes())
    assert written[0] == written[1]
    assert not re.search(rb"CreationDate|dc:date", written[0])


def test_a_pdf_has_fonts_that_publishers_take(odd: Path, tmp_path: Path) -> None:
    save(KINDS["curves"].draw(asked(odd)), tmp_path / "a.pdf")
    content = (tmp_path / "a.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    assert b"/FontFile2" in content  # TrueType
    assert b"/Type3" not in content


def test_an_svg_is_whole_and_needs_no_font(odd: Path, tmp_path: Path) -> None:
    save(KINDS["parts"].draw(asked(odd)), tmp_path / "a.svg")
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    assert root.tag.endswith("svg")
    assert root.get("width") == f"{3.35 * 72:g}pt"
    assert not list(root.iter("{http://www.w3.org/2000/svg}text"))


def test_a_png_has_the_pixels_asked_for(twenty: Path, tmp_path: Path) -> None:
    save(KINDS["curves"].draw(asked(twenty)), tmp_path / "a.png", dpi=100)
    assert imread(tmp_path / "a.png").shape[1] == 335


def test_settings_of_matplotlib_do_not_matter(twenty: Path, tmp_path: Path) -> None:
    def draw(name: str) -> bytes:
        save(KINDS["curves"].draw(asked(twenty)), tmp_path / name)
        return (tmp_path / name).read_bytes()

    expected = draw("a.pdf")
    with matplotlib.rc_context({"font.size": 30, "font.family": "serif", "axes.grid": False}):
        assert draw("b.pdf") == expected
        assert matplotlib.rcParams["font.size"] == 30


def test_the_command_writes_a_file_and_says_where(fedfor: Cli, tmp_path: Path) -> None:
    made_run(tmp_path / "run")
    code, out, _ = fedfor("plot", "curves", tmp_path / "run")
    assert code == 0
    assert out.startswith("Wrote curves.pdf, 3.35 x ")
    assert "means over seeds" in out
    assert (tmp_path / "curves.pdf").read_bytes().startswith(b"%PDF-")
    code, out, _ = fedfor(
        "plot", "target", "run", "-o", "t.svg", "--target", "0.8", "--width", "page", "--height",
        "2.5", "--title", "Why", "--methods", "fedavg",
    )  # fmt: skip
    assert (code, out.split(":")[0]) == (0, "Wrote t.svg, 7.00 x 2.50 in")


@pytest.mark.filterwarnings("always")
def test_damage_is_told(fedfor: Cli, tmp_path: Path) -> None:
    made_run(tmp_path / "run")
    with (tmp_path / "run" / "rounds.jsonl").open("a") as file:
        file.write("no JSON\n")
    code, _, err = fedfor("plot", "curves", "run")
    assert code == 0
    assert err == "warning: run: 1 of its lines in rounds.jsonl are damaged or cut short\n"


@pytest.mark.parametrize(
    ("what", "lacking"), [("state", "state_bytes"), ("agreement", "cosine"), ("parts", "classes")]
)
def test_methods_that_do_not_tell_are_named(tmp_path: Path, what: str, lacking: str) -> None:
    made_run(tmp_path / "a", extra=told)
    silent: Callable[[int], dict[str, Any]] = lambda t: {lacking: None, "opposing": None}  # noqa: E731
    made_run(tmp_path / "b", algorithm="fedfor", extra=silent)
    with pytest.warns(UserWarning, match="no run of fedfor tells .*; left out"):
        figure = KINDS[what].draw(asked(tmp_path))
    assert legend(figure) == ["fedavg"]


def test_places_are_not_needed(tmp_path: Path) -> None:
    made_run(tmp_path / "a")
    methods = asked(tmp_path).methods
    assert legend(KINDS["curves"].draw(Asked(methods))) == ["fedavg"]


def test_a_comparison_draws_the_methods_that_were_tested(tmp_path: Path) -> None:
    def result(label: str, **run: Any) -> AlgorithmResult:
        folder = made_run(tmp_path / label, algorithm=label, **run)
        planned = PlannedRun(label, 0, RunFolder(folder).config(), RunFolder(folder))
        return AlgorithmResult(label, [planned])

    early = result("fedavg", rounds=3, accuracy=lambda t: None, diverged=True)
    assert "no run got as far" in _draw_curves([early], tmp_path / "curves.png")
    assert not (tmp_path / "curves.png").exists()
    assert "curves.png" in _draw_curves([early, result("fedfor")], tmp_path / "curves.png")
    assert imread(tmp_path / "curves.png").shape[1] == 1200

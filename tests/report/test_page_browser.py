"""The report in a real browser, offline: what it draws is what the records say."""

import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedfor.report.page import write_page
from tests.browser import Tab, browser, opened_tab

from .made import flower_extra, made_cohort, made_comparison, made_run

pytestmark = pytest.mark.processes

__all__ = ["browser"]  # a fixture

METHODS = ("fedavg", "fedprox,mu=0.1", "fedavgm", "scaffold", "fedfor")
ODD = (
    "<script>window.hacked=1</script>",
    "</script><img src=x onerror=window.hacked=1>",
    "\"quotes\" & 'apostrophes' `ticks` ${window.hacked=1}",
    "🐢 émoji \u202e reversed \u2028 line",
    "x" * 300,
)


def extra(t: int) -> dict[str, object]:
    return {
        "cosine": 0.5 + 0.01 * t,
        "opposing": None if t == 1 else 0.4,
        "classes": [0.1 * t, None, 0.05 * t],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of five methods with three seeds."""
    path = tmp_path_factory.mktemp("page") / "five methods"
    return made_comparison(
        path,
        METHODS,
        seeds=3,
        rounds=8,
        extra=extra,
        target=0.6,
        cohort=made_cohort([[5, 0, 1], [0, 9, 2]], ["cat", "dog", "<b>cow</b>"]),
    )


@pytest.fixture(scope="module")
def report(folder: Path) -> str:
    to = folder / "report.html"
    write_page([folder], to)
    return to.as_uri()


@pytest.fixture(scope="module")
def shared_tab(browser: Any) -> Iterator[Tab]:
    with opened_tab(browser) as tab:
        yield tab


@pytest.fixture
def tab(shared_tab: Tab, report: str) -> Tab:
    shared_tab.errors.clear()
    shared_tab.requests.clear()
    shared_tab.open(report)
    return shared_tab


def lines(folder: Path, method: str, seed: int) -> list[dict[str, float]]:
    path = folder / "runs" / method / f"seed-{seed}" / "rounds.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def curve_points(tab: Tab, method: int, where: str = "#curves") -> list[tuple[float, float]]:
    """The curve as it is drawn, in the units of its axes, which are read off their labels."""
    drawn = f'{where} svg .curve[data-method="{method}"]'
    tab.page.wait_for_selector(drawn, state="attached")  # a picture is drawn when it has a width
    found = tab.page.evaluate(
        """([where, method]) => {
          const svg = document.querySelector(where + " svg");
          const d = svg.querySelector(`.curve[data-method="${method}"]`).getAttribute("d");
          const points = d.slice(1).split("L").map((p) => p.split(" ").map(Number));
          const texts = [...svg.querySelectorAll("text")];
          const number = (t) => Number(t.textContent.replaceAll(",", ""));
          const ys = texts.filter((t) => t.getAttribute("text-anchor") === "end")
            .map((t) => [Number(t.getAttribute("y")) - 4, number(t)]);
          const xs = texts.filter((t) => t.getAttribute("text-anchor") === "middle")
            .filter((t) => Number.isFinite(number(t)))
            .map((t) => [Number(t.getAttribute("x")), number(t)]);
          return { points, xs, ys };
        }""",
        [where, method],
    )

    def line(marks: list[list[float]]) -> tuple[float, float]:
        (a, va), (b, vb) = marks[0], marks[-1]
        return (vb - va) / (b - a), va - (vb - va) / (b - a) * a

    (sx, ox), (sy, oy) = line(found["xs"]), line(found["ys"])
    return [(sx * x + ox, sy * y + oy) for x, y in found["points"]]


def test_it_opens_offline_without_an_error_or_a_request(tab: Tab, report: str) -> None:
    assert tab.errors == []
    assert tab.requests == [report]
    shown = tab.page.locator("section").evaluate_all("all => all.map(s => s.id)")
    parts = ["curves", "table", "target", "parts", "bytes", "cohort", "agreement", "settings"]
    assert shown == [*parts, "runs"]


def test_the_curves_have_the_numbers_of_the_records(tab: Tab, folder: Path) -> None:
    for place, method in enumerate(METHODS):
        runs = [lines(folder, method, seed) for seed in range(3)]
        means = [statistics.fmean(100 * run[t]["accuracy"] for run in runs) for t in range(8)]
        drawn = curve_points(tab, place)
        assert [x for x, _ in drawn] == pytest.approx(range(1, 9), abs=0.05)
        assert [y for _, y in drawn] == pytest.approx(means, abs=0.1)


def test_curves_by_bytes_and_on_a_log_axis(tab: Tab, folder: Path) -> None:
    tab.page.select_option('[data-control="x"]', "device")
    records = lines(folder, "fedfor", 0)
    sent, total = [], 0.0
    for record in records:
        total += record["down_cross_device"] + record["up"]
        sent.append(total / 2**20)
    drawn = curve_points(tab, 4)
    assert [x for x, _ in drawn] == pytest.approx(sent, rel=0.02, abs=0.003)
    before = tab.page.locator("#curves .curve").first.get_attribute("d")
    tab.page.check('[data-control="logY"]')
    assert tab.page.locator("#curves .curve").first.get_attribute("d") != before
    assert tab.errors == []


def test_pointing_at_a_round_tells_mean_deviation_and_runs(tab: Tab, folder: Path) -> None:
    box = tab.page.locator("#curves svg").bounding_box()
    tab.page.mouse.move(box["x"] + box["width"] - 16, box["y"] + box["height"] / 2)
    tip = tab.page.locator("#curves .tip")
    tip.wait_for()
    text = tip.inner_text()
    last = [100 * lines(folder, "fedfor", seed)[-1]["accuracy"] for seed in range(3)]
    assert "round: 8" in text
    told = re.search(r"fedfor\n([\d.]+) ± ([\d.]+), 3 runs", text)
    assert told is not None
    assert float(told[1]) == pytest.approx(statistics.fmean(last), abs=0.01)
    assert float(told[2]) == pytest.approx(statistics.stdev(last), abs=0.001)


def test_what_is_told_at_a_round_fits_beside_it_on_a_phone(browser: Any, report: str) -> None:
    with opened_tab(browser, 390) as tab:
        tab.open(report)
        tab.page.locator("#curves svg").first.focus()
        for key in ("Home", "End"):
            tab.page.keyboard.press(key)
            tip = tab.page.locator("#curves .tip").bounding_box()
            assert tip["x"] >= 0
            assert tip["x"] + tip["width"] <= 390
            samples = tab.page.locator("#curves .tip svg")
            assert samples.count() == len(METHODS)
            assert samples.first.bounding_box()["width"] == 34


def test_a_click_after_a_target_was_typed_is_not_lost(tab: Tab) -> None:
    tab.page.fill('[data-control="target"]', "50")
    tab.page.locator('.legend button[data-method="1"]').click()
    tab.page.locator('.legend button[data-method="1"][aria-pressed="false"]').wait_for()
    assert tab.page.locator('#target [data-control="target"]').input_value() == "50"


def test_the_keyboard_reads_the_curves_too(tab: Tab) -> None:
    tab.page.locator("#curves svg").focus()
    tab.page.keyboard.press("End")
    assert "round: 8" in tab.page.locator("#curves .tip").inner_text()
    tab.page.keyboard.press("ArrowLeft")
    assert "round: 7" in tab.page.locator("#curves .tip").inner_text()


def test_hiding_a_method_hides_it_everywhere(tab: Tab) -> None:
    def curves(method: int) -> Any:
        return tab.page.locator(f'section .curve[data-method="{method}"]')

    curves(1).nth(3).wait_for(state="attached")
    tab.page.locator('.legend button[data-method="1"]').click()
    tab.page.locator('.legend button[data-method="1"][aria-pressed="false"]').wait_for()
    curves(0).nth(3).wait_for(state="attached")  # drawn anew
    assert tab.page.locator('section [data-method="1"]').count() == 0
    for part in ("#table", "#target", "#bytes", "#settings"):
        assert "fedprox" not in tab.page.locator(part).inner_text()
    tab.page.locator(".legend .all").click()
    curves(1).nth(3).wait_for(state="attached")


def first_column(tab: Tab) -> list[str]:
    names: list[str] = tab.page.locator("#table tbody td:first-child .clamp").all_inner_texts()
    return names


def test_the_table_sorts_and_marks_the_winner(tab: Tab) -> None:
    assert first_column(tab) == list(METHODS)
    winners = tab.page.locator("#table td.winner").all_inner_texts()
    assert winners
    assert all(text.startswith("★") for text in winners)
    best = tab.page.locator("#table th button", has_text="best to 8")
    best.click()
    assert first_column(tab) == list(reversed(METHODS))
    best.click()
    assert first_column(tab) == list(METHODS)
    tab.page.locator("#table th button", has_text="method").click()
    assert first_column(tab) == sorted(METHODS)


def test_runs_that_never_reach_the_target_are_shown_as_such(tab: Tab) -> None:
    text = tab.page.locator("#target").inner_text()
    assert "3 of 3 never" in text  # of the worst methods no seed
    assert "Not at 60 %" in text
    tab.page.fill('[data-control="target"]', "99")
    tab.page.keyboard.press("Tab")
    tab.page.locator("#target .never").nth(len(METHODS) - 1).wait_for()
    assert "with 99 % test accuracy" in tab.page.locator("#target").inner_text()


def test_classes_clients_and_agreement_are_drawn(tab: Tab) -> None:
    assert tab.page.locator("#parts h3").all_inner_texts() == ["cat", "<b>cow</b>"]
    told = tab.page.locator("#cohort circle title")
    dots = told.evaluate_all("all => all.map(title => title.textContent)")
    assert "client 7, dog: 9 samples" in dots
    assert len(dots) == 4
    titles = tab.page.locator("#agreement h3").all_inner_texts()
    assert titles == ["cosine", "opposing weights, %", "disagreement"]
    expected = (
        [0.5 + 0.01 * t for t in range(1, 9)],
        [40.0] * 7,
        [1 + 1 / t for t in range(1, 9)],
    )
    for place, values in enumerate(expected):
        drawn = curve_points(tab, 0, f"#agreement .pair > div:nth-child({place + 1})")
        assert [y for _, y in drawn] == pytest.approx(values, abs=0.3 if place == 1 else 0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_the_screen(
    browser: Any, report: str, width: int, scheme: str, tmp_path: Path
) -> None:
    with opened_tab(browser, width, scheme) as tab:
        tab.open(report)
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
        colour = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (colour == "rgb(255, 255, 255)") == (scheme == "light")
        picture = tab.page.screenshot(path=tmp_path / "page.png", full_page=True)
        assert len(picture) > 20_000
        assert tab.errors == []


def test_print_is_light_and_without_controls(browser: Any, report: str) -> None:
    with opened_tab(browser, scheme="dark") as tab:
        tab.open(report)
        tab.page.emulate_media(media="print")
        paper = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(255, 255, 255)"
        assert not tab.page.locator("#curves .controls").is_visible()
        assert tab.page.locator("#curves .curve").first.is_visible()
        assert tab.page.pdf().startswith(b"%PDF")


def test_odd_names_show_as_text_and_break_nothing(browser: Any, tmp_path: Path) -> None:
    folders = []
    for place, name in enumerate(ODD):
        made = made_run(
            tmp_path / f"run {place} <b>&\"'",
            algorithm=name,
            extra=lambda t: {"domains": dict.fromkeys(ODD, 0.1 * t)},
            cohort={
                "classes": 2,
                "class_names": list(ODD[:2]),
                "clients": [{"client": 1, "domain": ODD[1], "counts": [3, 4]}],
            },
        )
        folders.append(made)
    write_page(folders, tmp_path / "odd.html", title=ODD[0])
    with opened_tab(browser, 390) as tab:
        tab.open((tmp_path / "odd.html").as_uri())
        assert tab.errors == []
        assert tab.page.evaluate("window.hacked") is None
        assert tab.page.title() == ODD[0]
        assert first_column(tab) == [name.replace("\u2028", "\n") for name in ODD] or all(
            name[:20] in text for name, text in zip(ODD, first_column(tab), strict=True)
        )
        assert tab.page.locator("img").count() == 0
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_flower_federation_and_a_damaged_run_say_what_is_missing(
    browser: Any, tmp_path: Path
) -> None:
    flower = made_run(tmp_path / "flower", algorithm="fedfor", flower=True, extra=flower_extra)
    cut = made_run(tmp_path / "cut", algorithm="fedavg", planned=9, done=False)
    with (cut / "rounds.jsonl").open("ab") as file:
        file.write(b'{"round": 6, "acc')
    bare = made_run(tmp_path / "bare", algorithm="scaffold", diverged=True)
    (bare / "config.toml").write_text("= not toml")
    write_page([flower, cut, bare], tmp_path / "mixed.html")
    with opened_tab(browser) as tab:
        tab.open((tmp_path / "mixed.html").as_uri())
        assert tab.errors == []
        told = tab.page.locator("details.missing").inner_text()
        assert "bare: its config.toml cannot be read" in told
        assert "how its clients' updates agree" in told
        assert "it sent NaN" in tab.page.locator("#runs").inner_text()
        assert "1 of 1 diverged" in tab.page.locator("#table").inner_text()
        assert "1 of 1 not done; so far" in tab.page.locator("#table").inner_text()

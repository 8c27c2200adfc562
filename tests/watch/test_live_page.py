"""The live page in a real browser, beside a run that goes on."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedfor.experiments.folder import RunFolder
from fedfor.watch.follow import Follower
from fedfor.watch.live import LivePage
from fedfor.watch.server import WatchServer, serve
from tests.browser import Tab, browser, opened_tab

from ..report.made import flower_extra, made_comparison, made_record, made_run

pytestmark = pytest.mark.processes

__all__ = ["browser"]  # a fixture

HACK = "<img src=x onerror=window.hacked=1>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made_comparison(
        tmp_path / "sweep", ["fedavg", HACK], seeds=2, rounds=3, planned=9, done=False
    )


@pytest.fixture
def at(folder: Path) -> Iterator[WatchServer]:
    started = serve(LivePage(Follower(folder)), "127.0.0.1", 0)
    threading.Thread(target=started.serve_forever, args=(0.05,), daemon=True).start()
    yield started
    started.shutdown()
    started.server_close()


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    with opened_tab(browser, offline=False) as opened:
        yield opened
        assert opened.errors == []
        assert opened.page.evaluate("window.hacked") is None


def runs(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.rglob("rounds.jsonl"))


def state(tab: Tab, words: str) -> None:
    tab.page.wait_for_selector(f'#live[data-state="{words}"]')


def test_each_round_is_drawn_on_the_page(folder: Path, at: WatchServer, tab: Tab) -> None:
    tab.open(at.url)
    state(tab, "running")
    assert "12 of 36 rounds" in tab.page.inner_text("#live")
    curve = "#curves svg .curve"
    for t in range(4, 8):
        before = tab.page.locator(curve).first.get_attribute("d")
        for run in runs(folder):
            RunFolder(run).append(made_record(t, t / 10))
        tab.page.wait_for_selector(f'#live[data-rounds="{4 * t}"]')
        tab.page.wait_for_function(
            """([curve, before]) => {
              const drawn = document.querySelector(curve);
              return drawn !== null && drawn.getAttribute("d") !== before;
            }""",
            arg=[curve, before],
        )
    assert tab.requests[0] == at.url
    assert {url.split("?")[0] for url in tab.requests[1:]} == {f"{at.url}data.json"}


def test_the_page_outlasts_its_folder_and_goes_on_with_it(
    folder: Path, at: WatchServer, tab: Tab
) -> None:
    tab.open(at.url)
    folder.rename(folder.with_name("away"))
    state(tab, "gone")
    assert "is gone since" in tab.page.inner_text("#live")
    assert tab.page.locator("#curves svg path").count() > 0
    folder.with_name("away").rename(folder)
    state(tab, "running")
    RunFolder(runs(folder)[0]).append(made_record(4, 0.5))
    tab.page.wait_for_selector('#live[data-rounds="13"]')


def test_the_end_is_told_and_so_is_a_watcher_that_has_left(
    folder: Path, at: WatchServer, tab: Tab
) -> None:
    tab.open(at.url)
    for run in runs(folder):
        RunFolder(run).finish({"rounds": 3, "best": 0.7}, None)
    state(tab, "ended")
    assert "All 4 runs have ended." in tab.page.inner_text("#live")
    at.shutdown()
    at.socket.close()
    tab.page.wait_for_selector("#lost")
    assert all("ERR_CONNECTION_REFUSED" in error for error in tab.errors)
    tab.errors.clear()


def test_a_page_that_was_opened_before_the_run_shows_it_when_it_comes(
    folder: Path, at: WatchServer, tab: Tab
) -> None:
    """First the folder, then a run without a round, then the round."""
    away = folder.with_name("away")
    folder.rename(away)
    tab.page.goto(at.url)
    assert "There is no folder" in tab.page.inner_text("[data-state=waiting]")
    made_run(folder, rounds=0, planned=9, done=False)
    state(tab, "running")
    RunFolder(folder).append(made_record(1, 0.5))
    tab.page.wait_for_selector('#live[data-rounds="1"]')


def test_clients_that_failed_are_on_the_page(folder: Path, at: WatchServer, tab: Tab) -> None:
    def extra(t: int) -> dict[str, Any]:
        rejected = [{"node": "7", "why": HACK}] if t == 2 else []
        return {**flower_extra(t), "rejected": rejected}

    made_run(folder / "flower", rounds=3, planned=9, done=False, flower=True, extra=extra, seed=5)
    tab.open(at.url)
    assert f"1: round 2, node 7: {HACK}" in tab.page.inner_text("#live")


def test_at_phone_width_nothing_sticks_out(folder: Path, at: WatchServer, browser: Any) -> None:
    with opened_tab(browser, width=390, offline=False) as tab:
        tab.open(at.url)
        state(tab, "running")
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert tab.errors == []

"""Pages in a real headless Chromium, cut off from every network but this machine's own loopback."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from .processes import HANG

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def require_browser() -> str:
    """Where Chromium is. Without one a test is skipped, unless $FEDFOR_BROWSER says 'required'."""
    if CHROMIUM is None:
        if os.environ.get("FEDFOR_BROWSER") == "required":
            pytest.fail("there is no Chromium, and FEDFOR_BROWSER=required")
        pytest.skip("NOT TESTED: needs Chromium (apt-get install chromium)")
    return CHROMIUM


class Tab:
    """A page, and all that went wrong on it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, url: str) -> None:
        self.page.goto(url)
        self.page.wait_for_selector("#curves svg")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One for all tests of a file, and ended with them: while it is there, its loop runs."""
    from playwright.sync_api import sync_playwright

    path = require_browser()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=path, args=list(QUIET), timeout=1000 * HANG
        )
        yield started
        started.close()


@contextmanager
def opened_tab(
    browser: Any, width: int = 1280, scheme: str = "light", offline: bool = True
) -> Iterator[Tab]:
    """A window of its own. Offline, not even loopback can be reached."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=offline
    )
    page = context.new_page()
    page.set_default_timeout(1000 * HANG)
    yield Tab(page)
    context.close()

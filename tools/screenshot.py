"""The picture of a report that the README shows.

make demo
python -m tools.screenshot runs/demo/report.html docs/images/report.png
"""

import argparse
import shutil
import sys
from pathlib import Path

WIDTH, HEIGHT = 1220, 1180


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("picture", type=Path)
    chosen = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("there is no Chromium; apt-get install chromium")
    if not chosen.page.is_file():
        sys.exit(f"there is no {chosen.page}; make demo writes one")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        tab.goto(chosen.page.absolute().as_uri())
        tab.wait_for_selector("#curves .curve")
        tab.screenshot(path=chosen.picture)
        browser.close()


if __name__ == "__main__":
    main()

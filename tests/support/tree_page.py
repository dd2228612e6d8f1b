"""The drawn tree of made-up sessions in Chromium: no kernel, no server, no machine."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Browser, Locator, Page
from tests.architecture.house import ROOT
from tests.support.page_parts import faint_words
from tests.support.web_page import PATIENCE_MS

_DEMO = ROOT / "nbext" / "demo"
_WATCH_SHIFTS = """
window.shifts = [];
new PerformanceObserver(list => window.shifts.push(...list.getEntries().map(each => each.value)))
  .observe({type: 'layout-shift', buffered: true});
"""


@cache
def build() -> None:
    """Bundle the page, once."""
    node = Path(sys.executable).parent / "node"
    subprocess.run([node, "build.mjs", "demo"], cwd=ROOT / "nbext", check=True)


class TreePage:
    """A page with one tree."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        page.add_init_script(_WATCH_SHIFTS)

    def open(self, count: int, **wanted: str) -> None:
        """Show a session of so many checkpoints; theme, width, height and place as wished."""
        build()
        self.page.goto(f"{(_DEMO / 'index.html').as_uri()}?{urlencode({'count': count, **wanted})}")
        self.page.locator(".bp-row").first.wait_for()
        # Until it was drawn once a tree puts its rows where it wants them.
        self.settle()

    def row(self, key: str) -> Locator:
        """A row by its key: c:ID of a checkpoint, b:NAME of a branch."""
        return self.page.locator(f'.bp-row[data-key="{key}"]')

    def do(self, words: str) -> None:
        """Press a button of what is selected."""
        self.page.locator(".bp-desk").get_by_role("button", name=words, exact=True).first.click()

    def focused(self) -> str:
        """The key of the row that has the keyboard, or else what has it."""
        return self.page.evaluate(
            "document.activeElement.dataset.key ?? document.activeElement.className"
        )

    def evaluate(self, script: str) -> Any:
        """What a script gives; `demo` is the page's own."""
        return self.page.evaluate(script)

    def settle(self) -> None:
        """Wait until the page has been drawn twice."""
        self.page.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def shifts(self) -> list[float]:
        """By how much things moved that nobody touched."""
        self.settle()
        return self.page.evaluate("window.shifts")

    def faint_words(self) -> list[str]:
        """Words that are too faint on what is behind them."""
        return faint_words(self.page)


@contextmanager
def tree_page(browser: Browser, width: int = 1000, height: int = 720) -> Generator[TreePage]:
    """A page that may complain of nothing till the end."""
    context = browser.new_context(viewport={"width": width, "height": height})
    try:
        opened = TreePage(context.new_page())
        yield opened
        assert opened.complaints == []
    finally:
        context.close()

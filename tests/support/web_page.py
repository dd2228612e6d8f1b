"""JupyterLab or Notebook 7 in Debian's Chromium, as someone before the screen has it."""

import json
import os
import re
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, sync_playwright
from tests.support.jupyter_server import JupyterServer

CHROMIUM = Path("/usr/bin/chromium")
PATIENCE_MS = 180_000
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# What pages complain of with any kernel: none of it is about messages.
_OWN_NOISE = re.compile(
    r"Failed to load resource"  # of what a server has not: news, translations, extensions' lists
    r"|favicon"
    r"|reading 'schema'"  # Notebook 7.6 looks for settings of an extension it has not
)
# Cells out of sight are not in the page, but in its model.
_NOTEBOOK = "window.jupyterapp.shell.currentWidget.content"
_CELLS = f"[...{_NOTEBOOK}.model.cells]"
_RUNNING = "cell => cell.executionState === 'running'"
_ABOUT_MESSAGES = re.compile(r"cancel|dispos|dropp|message", re.IGNORECASE)


@contextmanager
def chromium() -> Generator[Browser]:
    """The browser; skips the test that wants it where it is not installed."""
    if not CHROMIUM.exists():
        pytest.skip("Chromium is not installed; as root: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class NotebookPage:
    """A notebook on a page."""

    def __init__(self, page: Page, pictures: Path) -> None:
        self.page = page
        # A page of Lab can have further notebooks behind the one that is seen.
        self.panel = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        self.complaints: list[str] = []
        self._pictures = pictures
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self._listen)
        page.on("pageerror", lambda error: self._note(f"uncaught: {error}"))

    def _listen(self, message: ConsoleMessage) -> None:
        text = message.text
        if message.type == "error" or (message.type == "warning" and _ABOUT_MESSAGES.search(text)):
            self._note(f"{message.type}: {text}")

    def _note(self, complaint: str) -> None:
        if not _OWN_NOISE.search(complaint):
            self.complaints.append(complaint)

    def open(self, server: JupyterServer, route: str) -> None:
        """Load the page and wait until its kernel is there and idle."""
        self.page.goto(f"{server.url}/{route}?token={server.token}")
        # Before the kernel is there a page shows it as idle, and drops what it is told to run.
        self.panel.locator(".jp-Toolbar-kernelName", has_text="microVM").wait_for()
        self.wait_kernel("idle")

    def save(self, path: Path) -> None:
        """Save the notebook, and wait until its file has been written."""
        before = path.stat().st_mtime_ns
        self.page.keyboard.press("Control+s")
        # The server keeps the old one there until the new one is whole.
        aside = path.with_name(f".~{path.name}")
        self.wait_until(lambda: path.stat().st_mtime_ns != before and not aside.exists())

    def wait_kernel(self, state: str) -> None:
        """Wait until the page shows that state of the kernel."""
        self.panel.locator(f".jp-Notebook-ExecutionIndicator[data-status='{state}']").wait_for()

    def choose(self, menu: str, entry: str) -> None:
        """Choose from a menu."""
        self.page.get_by_role("menuitem", name=menu, exact=True).click()
        self.page.locator(
            ".lm-Menu-itemLabel", has_text=re.compile(f"^{re.escape(entry)}$")
        ).click()

    def cell(self, number: int) -> Locator:
        """A cell, counted from 0."""
        return self.panel.locator(".jp-Notebook .jp-Cell").nth(number)

    def write_cell(self, number: int, code: str) -> None:
        """Write over a cell's code."""
        self.cell(number).locator(".cm-content").fill(code)

    def start_cell(self, number: int) -> None:
        """Run a cell by its keys, without waiting."""
        self.cell(number).locator(".jp-InputArea-editor").click()
        self.page.keyboard.press("Control+Enter")

    def run_cell(self, number: int) -> None:
        """Run a cell to its end, which the page's own command tells best."""
        self.cell(number).locator(".jp-InputArea-editor").click()
        self.page.evaluate("window.jupyterapp.commands.execute('notebook:run-cell')")

    def slider(self, number: int) -> Locator:
        """The number beside the slider below a cell, which can be typed over."""
        return self.cell(number).locator(".widget-readout")

    def move_slider(self, number: int, value: int) -> None:
        """Type another value for the slider below a cell."""
        self.slider(number).fill(str(value))
        self.slider(number).press("Enter")

    def run_all(self) -> None:
        """Choose Run All Cells, and wait until none runs any more."""
        self.choose("Run", "Run All Cells")
        self.wait_until(lambda: self.page.evaluate(f"{_CELLS}.some({_RUNNING})"))
        self.wait_until(lambda: not self.page.evaluate(f"{_CELLS}.some({_RUNNING})"))

    def output(self, number: int) -> str:
        """The text below a cell."""
        return self.cell(number).locator(".jp-OutputArea").first.inner_text()

    def wait_output(self, number: int, wanted: str) -> None:
        """Wait until a cell shows a text."""
        self.wait_until(lambda: wanted in self.output(number))

    def wait_until(self, condition: Callable[[], Any]) -> None:
        """Wait until the page is as wished."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not condition():
            assert time.monotonic() < deadline, "the page did not come to that"
            self.page.wait_for_timeout(200)

    def picture(self, name: str) -> None:
        """Keep what the page looks like now."""
        self.page.screenshot(path=self._pictures / f"{name}.png")


def write_notebook(path: Path, *codes: str) -> None:
    """Store a notebook of code cells under our kernel."""
    cells: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": f"cell-{number}",
            "metadata": {},
            "outputs": [],
            "source": code,
        }
        for number, code in enumerate(codes)
    ]
    kernel = {"display_name": "Python 3 (microVM)", "language": "python", "name": "branchpoint"}
    facts = {"metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps({"cells": cells, **facts}))


def write_settings(server: JupyterServer) -> None:
    """Have pages ask for no news, and note in each cell when it ran."""
    settings = {
        "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
        "notebook-extension/tracker": {"recordTiming": True},
    }
    for name, content in settings.items():
        file = server.settings / f"@jupyterlab/{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))


def pictures(otherwise: Path) -> Path:
    """Where pictures of pages are kept."""
    folder = Path(os.environ.get("BRANCHPOINT_SCREENSHOTS", otherwise))
    folder.mkdir(parents=True, exist_ok=True)
    return folder

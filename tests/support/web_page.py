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
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Locator,
    Page,
    expect,
    sync_playwright,
)
from playwright.sync_api import TimeoutError as PageTimeoutError
from tests.support.jupyter_server import JupyterServer

CHROMIUM = Path("/usr/bin/chromium")
PATIENCE_MS = 180_000
_SHORT_MS = 10_000
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Of what a page complains of this is ours: what our scripts do (the widget's come as a blob), what
# our routes answer, and what it finds in a kernel's messages. The rest is the page's own.
_OURS = re.compile(r"/branchpoint/|blob:")
_ABOUT_MESSAGES = {
    "warning": re.compile(r"cancel|dispos|dropp|message", re.IGNORECASE),
    "error": re.compile(r"cancel|dispos|dropp|message|comm\b|widget|model", re.IGNORECASE),
}
_OWN_NOISE = re.compile(
    # What was asked of a kernel that is restarted before it has answered (JupyterLab 4.6).
    r"Canceled future for \w+_request"
    # A page that is left, or whose server is, with something under way.
    r"|Failed to fetch|net::ERR_|Kernel connection (is disposed|disconnected)"
    # The widget manager overlooks a model that is there with the last moment it waits; see
    # nbext/src/widget_places.ts. A widget that is to be on a page is looked for there.
    r"|widget model not found"
)
# Cells out of sight are not in the page, but in its model.
_NOTEBOOK = "window.jupyterapp.shell.currentWidget.content"
# Notifications go after some seconds: what they say is kept from when they come.
_KEEP_NOTIFICATIONS = """
    window.notified = [];
    const known = new WeakMap();
    new MutationObserver(() => {
        for (const shown of document.querySelectorAll(".jp-toast-message")) {
            if (known.get(shown) !== shown.textContent) {
                known.set(shown, shown.textContent);
                window.notified.push(shown.textContent);
            }
        }
    }).observe(document, { subtree: true, childList: true, characterData: true });
"""
_SAVE_AGAIN = """async () => {
    const { context } = window.jupyterapp.shell.currentWidget;
    if (context.model.dirty) {
        await context.save();
    }
    return context.model.dirty;
}"""
_CELLS = f"[...{_NOTEBOOK}.model.cells]"
_RUNNING = "cell => cell.executionState === 'running'"


@contextmanager
def chromium() -> Generator[Browser]:
    """The browser; skips the test that wants it where it is not installed."""
    if not CHROMIUM.exists():
        pytest.skip("Chromium is not installed; as root: apt-get install chromium")
    # Five seconds otherwise, which a loaded computer does not always keep.
    expect.set_options(timeout=PATIENCE_MS)
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
        page.add_init_script(_KEEP_NOTIFICATIONS)
        page.on("console", self._listen)
        page.on("pageerror", lambda error: self._note("error", str(error), error.stack or ""))

    def _listen(self, message: ConsoleMessage) -> None:
        if message.type in _ABOUT_MESSAGES:
            self._note(message.type, message.text, message.location["url"])

    def _note(self, kind: str, complaint: str, whence: str) -> None:
        is_ours = _OURS.search(f"{complaint}\n{whence}")
        is_about_messages = _ABOUT_MESSAGES[kind].search(complaint)
        if is_ours or (is_about_messages and not _OWN_NOISE.search(complaint)):
            self.complaints.append(f"{kind}: {complaint} {whence}")

    def open(self, server: JupyterServer, route: str, *, kernel: str = "microVM") -> None:
        """Load the page and wait until its kernel is there and idle."""
        self.page.goto(f"{server.url}/{route}?token={server.token}")
        # Before the kernel is there a page shows it as idle, and drops what it is told to run.
        self.panel.locator(".jp-Toolbar-kernelName", has_text=kernel).wait_for()
        self.wait_kernel("idle")

    def save(self, path: Path) -> None:
        """Save the notebook, and wait until its file has been written and the page knows."""
        before = path.stat().st_mtime_ns
        self.page.keyboard.press("Control+s")
        # The server keeps the old one there until the new one is whole.
        aside = path.with_name(f".~{path.name}")
        self.wait_until(lambda: path.stat().st_mtime_ns != before and not aside.exists())
        # It asks once more after that, and what comes before the answer stays unsaved.
        self.wait_until(lambda: not self.page.evaluate(_SAVE_AGAIN))

    def wait_kernel(self, state: str) -> None:
        """Wait until the page shows that state of the kernel."""
        self.panel.locator(f".jp-Notebook-ExecutionIndicator[data-status='{state}']").wait_for()

    def choose(self, menu: str, entry: str) -> None:
        """Choose from a menu."""
        self.page.get_by_role("menuitem", name=menu, exact=True).click()
        self.page.locator(
            ".lm-Menu-itemLabel", has_text=re.compile(f"^{re.escape(entry)}$")
        ).click()

    def command(self, label: str) -> None:
        """Choose a command of ours from the palette, once that can be done."""
        words = self.page.locator(".lm-CommandPalette-input")
        # What cannot be done just now is listed all the same, and a click on it does nothing.
        able = self.page.locator(".lm-CommandPalette-item:not(.lm-mod-disabled)", has_text=label)

        def is_chosen() -> bool:
            self.page.keyboard.press("Control+Shift+C")
            try:
                words.fill(f"branchpoint {label}", timeout=_SHORT_MS)
                able.first.click(timeout=_SHORT_MS)
            except PageTimeoutError:
                return False
            return True

        # A page that has just been loaded turns to its notebook, and the palette goes.
        self.wait_until(is_chosen)

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

    def wait_notified(self, words: str) -> None:
        """Wait until a notification has come with these words since this was called last."""
        notified = "words => window.notified.some(shown => shown.includes(words))"
        self.wait_until(lambda: self.page.evaluate(notified, words))
        self.page.evaluate("window.notified.length = 0")

    def picture(self, name: str) -> None:
        """Keep what the page looks like now."""
        self.page.screenshot(path=self._pictures / f"{name}.png")


def write_notebook(path: Path, *codes: str, kernel: str = "branchpoint") -> None:
    """Store a notebook of code cells under our kernel, or another."""
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
    spec = {"display_name": kernel, "language": "python", "name": kernel}
    facts = {"metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}
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

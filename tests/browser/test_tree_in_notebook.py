"""The tree in a real notebook, on real machines: steered by keys, and every button pressed."""

import pytest
from playwright.sync_api import Keyboard, Locator, expect
from tests.browser.conftest import OpenPage
from tests.support.jupyter_server import JupyterServer
from tests.support.page_parts import titled
from tests.support.web_page import PATIENCE_MS, NotebookPage, write_notebook

pytestmark = [pytest.mark.vm, pytest.mark.browser]

CELLS = ("n = 1", "%checkpoint one", "%lineage", "n = 2")


class Steering:
    """A widget in a notebook, and who steers it."""

    def __init__(self, notebook: NotebookPage) -> None:
        self.notebook = notebook
        self.tree: Locator = notebook.cell(2).locator(".bp-lineage")
        self.keys: Keyboard = notebook.page.keyboard

    def row(self, title: str) -> Locator:
        """The row of that title."""
        title_there = titled(self.notebook.page, title)
        return self.tree.locator(".bp-row").filter(has=title_there)

    def press(self, title: str, deed: str) -> None:
        """Select a row, and press a button of what is offered there."""
        self.row(title).click()
        self.tree.locator(f".bp-offering:not([hidden]) [data-do={deed}]").first.click()

    def told(self, words: str) -> None:
        """Wait until the tree says so, and look at it."""
        expect(self.tree.locator(".bp-message")).to_contain_text(words, timeout=PATIENCE_MS)

    def focused(self) -> str:
        """The words of what has the keyboard."""
        return self.notebook.page.evaluate("document.activeElement.textContent")


def test_every_button_of_the_tree_does_what_it_says_and_no_key_goes_to_the_notebook(
    lab: JupyterServer, open_page: OpenPage
) -> None:
    write_notebook(lab.folder / "steering.ipynb", *CELLS)
    notebook = open_page(lab, "lab/workspaces/steering/tree/steering.ipynb")
    for number in range(4):
        notebook.run_cell(number)
    here = Steering(notebook)
    expect(here.tree).to_contain_text("one")

    # In the notebook's own keys these delete, turn into text, add, cut, undo and restart.
    here.row("one").click()
    for key in "ddmabxz00":
        here.keys.press(key)
    expect(notebook.panel.locator(".jp-Notebook .jp-Cell")).to_have_count(len(CELLS))
    here.keys.press("Enter")
    assert here.focused() == "Roll back…"
    here.keys.press("Escape")

    here.press("one", "rename")
    here.keys.type("first")
    here.keys.press("Enter")
    here.told("It is first now.")
    here.press("first", "note")
    here.keys.type("two lines\nof a note")
    here.keys.press("Control+Enter")
    here.told("The note is kept.")
    here.press("first", "pin")
    here.told("Pinned")
    expect(here.row("first")).to_contain_text("pinned · two lines of a note")
    here.press("first", "unpin")
    here.told("No longer pinned")
    expect(here.row("first")).not_to_contain_text("pinned")

    here.press("first", "fork")
    here.keys.type("2")
    here.keys.press("Tab")
    here.keys.type("left, right")
    here.keys.press("Enter")
    here.told("left, right")
    notebook.picture("tree-forked")

    here.press("first", "rollback")
    expect(here.tree.locator(".bp-told")).to_contain_text("undone", timeout=PATIENCE_MS)
    notebook.picture("tree-preview")
    here.keys.press("Enter")
    here.told("Back at first")
    expect(here.row("before-rollback-1")).to_be_visible()

    here.press("left", "diff")
    expect(here.tree.locator(".bp-told")).to_contain_text("left", timeout=PATIENCE_MS)
    here.keys.press("Escape")
    here.press("left", "pause")
    here.told("left is paused")
    here.press("left", "resume")
    here.told("left carries on")
    here.press("left", "drop")
    here.keys.press("Enter")
    here.told("Dropped: left.")
    here.press("right", "switch")
    here.told("The notebook continues as right.")
    expect(here.tree.locator("[aria-current=true]")).to_contain_text("right")
    here.press("right", "checkpoint")
    here.keys.type("second")
    here.keys.press("Enter")
    here.told("Saved as second")
    here.press("right", "keep")
    here.told("Parked: main.")
    expect(here.row("main")).to_contain_text("parked")
    notebook.picture("tree-kept")

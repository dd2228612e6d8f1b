"""The tree in a real notebook, on real machines: steered by keys, and every button pressed."""

import re
from collections.abc import Generator

import pytest
from playwright.sync_api import Browser, Keyboard, Locator, expect
from tests.support.in_front import (
    CLOSE_IN_FRONT,
    ENDS_WITH_IT,
    IN_FRONT,
    RUN_IN_FRONT,
    SAVE_IN_FRONT,
    STATE_IN_FRONT,
)
from tests.support.jupyter_server import JupyterServer
from tests.support.page_parts import titled
from tests.support.recorded_rows import recorded_rows, shown_rows
from tests.support.web_page import PATIENCE_MS, NotebookPage, pictures, write_notebook

from branchpoint_vmruntime.home import Home

pytestmark = [pytest.mark.vm, pytest.mark.browser]

CELLS = ("n = 1", "%checkpoint one", "%lineage", "n = 2")
# To look at what it is takes as long as anybody waits for that.
SLOW = """import time
class Slow:
    def __repr__(self):
        time.sleep(600)
slow = Slow()
print('made')"""


class Steering:
    """A widget in a notebook, and who steers it."""

    def __init__(self, notebook: NotebookPage, home: Home) -> None:
        self.notebook = notebook
        self._home = home
        self.tree: Locator = notebook.cell(2).locator(".bp-lineage")
        self.keys: Keyboard = notebook.page.keyboard

    def row(self, title: str) -> Locator:
        """The row of that title."""
        title_there = titled(self.notebook.page, title)
        return self.tree.locator(".bp-row").filter(has=title_there)

    def press(self, title: str, deed: str) -> None:
        """Select a row, and press a button of what is offered there."""
        self.row(title).click()
        self.offered(deed).click()

    def offered(self, deed: str) -> Locator:
        """The button of something that is offered for the row that is selected."""
        return self.tree.locator(f".bp-offering:not([hidden]) [data-do={deed}]").first

    def tool(self, name: str) -> Locator:
        """A button above the tree."""
        return self.tree.locator(f".bp-tools [data-do={name}]")

    def asked(self, name: str) -> Locator:
        """A button of the question that stands beside the tree."""
        return self.tree.locator(".bp-sheet").get_by_role("button", name=name, exact=True)

    def told(self, words: str) -> None:
        """Wait until the tree says so, and look at it."""
        expect(self.tree.locator(".bp-message")).to_contain_text(words, timeout=PATIENCE_MS)

    def focused(self) -> str:
        """The words of what has the keyboard."""
        return self.notebook.page.evaluate("document.activeElement.textContent")

    def told_by_machine(self, code: str, wanted: str) -> None:
        """Run code in the notebook, and wait until the machine has said so."""
        self.notebook.write_cell(3, code)
        self.notebook.run_cell(3)
        self.notebook.wait_output(3, wanted)

    def shows_the_record(self) -> None:
        """Wait until the tree shows just what is on record of the session."""
        recorded = recorded_rows(self._home, "steering.ipynb")
        self.notebook.wait_until(lambda: shown_rows(self.tree) == recorded())


@pytest.fixture(scope="module")
def here(
    lab: JupyterServer, browser: Browser, home: Home, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Steering]:
    """The page that every test goes on with."""
    write_notebook(lab.folder / "steering.ipynb", *CELLS)
    page = browser.new_page(viewport={"width": 1300, "height": 1000})
    notebook = NotebookPage(page, pictures(tmp_path_factory.mktemp("pictures")))
    notebook.open(lab, "lab/workspaces/steering/tree/steering.ipynb")
    for number in range(4):
        notebook.run_cell(number)
    yield Steering(notebook, home)
    assert notebook.complaints == []
    page.close()


def test_every_button_of_the_tree_does_what_it_says_and_no_key_goes_to_the_notebook(
    here: Steering,
) -> None:
    notebook = here.notebook
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
    here.shows_the_record()


def test_going_back_waits_for_no_look_and_saves_nothing_if_it_is_told_so(here: Steering) -> None:
    here.press("first", "diff")
    expect(here.tree.locator(".bp-told")).to_contain_text("from first to right as it is now")
    here.keys.press("Escape")
    here.told_by_machine(SLOW, "made")
    # By its tip: back to what it stands on.
    here.press("right", "rollback")
    here.tree.get_by_role("checkbox").uncheck()
    here.asked("Roll back without looking").click()
    here.told("Back at second")
    here.told_by_machine("print('slow' in globals(), n)", "False 1")
    here.shows_the_record()
    expect(here.row("before-rollback-2")).to_have_count(0)


def test_a_branch_is_forked_as_it_is_now(here: Steering) -> None:
    here.told_by_machine("n = 3; print('n is', n)", "n is 3")
    here.press("right", "fork")
    here.keys.type("1")
    here.keys.press("Tab")
    here.keys.type("twig")
    here.keys.press("Enter")
    here.told("twig")
    here.shows_the_record()


def test_what_only_the_page_can_do_is_offered_in_the_widget(here: Steering) -> None:
    notebook, page = here.notebook, here.notebook.page
    notebook.write_cell(0, "n = 'edited'")
    here.press("first", "restore")
    page.locator(".jp-Dialog").get_by_role("button", name="Restore", exact=True).click()
    expect(notebook.cell(0).locator(".cm-content")).to_have_text("n = 1")
    here.told("first")

    here.press("twig", "compare")
    expect(page.get_by_role("heading", name="Branches right and twig")).to_be_visible()
    notebook.picture("tree-compared")
    page.evaluate(CLOSE_IN_FRONT)
    here.told("right, twig")

    here.press("twig", "open")
    notebook.wait_until(lambda: page.evaluate(IN_FRONT) == "steering-twig.ipynb")
    notebook.wait_until(lambda: page.evaluate(STATE_IN_FRONT) == "idle")
    page.evaluate(RUN_IN_FRONT, "print('there', n)")
    expect(page.locator(".jp-OutputArea").last).to_contain_text("there 3")
    expect(here.row("twig")).to_contain_text("open as steering-twig.ipynb")
    notebook.picture("tree-opened")
    page.evaluate(SAVE_IN_FRONT)
    notebook.wait_until(lambda: page.evaluate(ENDS_WITH_IT))
    page.evaluate(CLOSE_IN_FRONT)
    expect(here.row("twig")).to_contain_text("paused")
    here.shows_the_record()


def test_what_stands_above_the_tree_changes_how_it_is_seen(here: Steering) -> None:
    rows = here.tree.locator(".bp-row")
    here.tool("unfold-all").click()
    count = rows.count()
    here.tool("fold-all").click()
    expect(rows).not_to_have_count(count)
    here.tree.get_by_role("searchbox").fill("second")
    expect(here.tree.locator(".bp-count")).to_have_text(f"1 of {count}")
    here.keys.press("Enter")
    expect(here.tree.locator(".bp-chosen")).to_contain_text("second")
    here.tree.get_by_role("searchbox").press("Escape")
    here.tool("unfold-all").click()
    expect(rows).to_have_count(count)

    here.row("first").click()
    here.tool("here").click()
    expect(here.tree.locator(".bp-chosen")).to_contain_text("you are here")
    assert here.focused().startswith("right")
    expect(here.tool("zoom")).to_have_attribute("aria-label", "Size of rows: normal")
    height = rows.first.evaluate("row => row.offsetHeight")
    here.tool("zoom").click()
    assert rows.first.evaluate("row => row.offsetHeight") > height
    here.tool("details").click()
    expect(here.offered("fork")).to_be_hidden()
    here.tool("details").click()
    expect(here.offered("fork")).to_be_visible()
    here.tool("table").click()
    table = here.tree.get_by_role("table", name=re.compile("^Branches"))
    expect(table.get_by_role("row", name=re.compile("^twig "))).to_be_visible()
    here.tool("table").click()
    expect(here.row("twig")).to_be_visible()

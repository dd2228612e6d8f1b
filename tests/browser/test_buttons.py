"""One page of JupyterLab: what no other test presses of commands and dialogs, and how they read."""

import re
from collections.abc import Generator

import pytest
from playwright.sync_api import Browser, expect
from tests.support.jupyter_server import JupyterServer
from tests.support.page_parts import faint_in_either_theme
from tests.support.steering import Steering
from tests.support.web_page import NotebookPage, pictures, write_notebook

pytestmark = [pytest.mark.vm, pytest.mark.browser]

COLOURFUL = """# A comment, and a word of each kind.
import sys
def f(x): return [print(f"{x!r}", None, True, 1.5), x @ x if x is not None else 'no']
print('plain'); print('to stderr', file=sys.stderr)
from IPython.display import HTML, Markdown, display
display(HTML('<table><tr><th>head</th></tr><tr><td>cell</td></tr></table>'), {'a': [1]})
display(Markdown('*said* with `code` and a [link](https://example.org)'))
f(1)"""
CELLS = ("x = 1", "gone = 2", COLOURFUL, "%branches")
ROUTE = "lab/workspaces/buttons/tree/buttons.ipynb"


@pytest.fixture(scope="module")
def hands(
    lab: JupyterServer, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Steering]:
    """On a notebook that runs outside a machine to begin with."""
    write_notebook(lab.folder / "buttons.ipynb", *CELLS, kernel="python3")
    page = browser.new_page()
    notebook = NotebookPage(page, pictures(tmp_path_factory.mktemp("pictures")))
    notebook.open(lab, ROUTE, kernel="Python 3")
    yield Steering(notebook)
    assert notebook.complaints == []
    page.close()


def test_a_notebook_outside_a_machine_is_told_so_and_given_one(hands: Steering) -> None:
    hands.notebook.command("Show the Lineage")
    expect(hands.panel.locator(".bp-Panel-words")).to_contain_text("outside a machine")
    expect(hands.state).to_be_hidden()
    expect(hands.notebook.panel.locator(".bp-ToolbarButton").first).to_be_hidden()
    hands.notebook.picture("buttons-outside")
    hands.choose_machine("Change kernel…")
    expect(hands.panel.locator(".bp-Panel-words")).to_be_hidden()
    expect(hands.notebook.panel.locator(".bp-ToolbarButton").first).to_be_visible()


def test_the_palette_saves_goes_back_and_forks_and_its_dialogs_can_be_read(hands: Steering) -> None:
    for number in (0, 1):
        hands.notebook.run_cell(number)
    rows = hands.panel.get_by_role("treeitem")
    before = rows.count()
    hands.notebook.command("Checkpoint")
    hands.notebook.wait_notified("Saved as")
    expect(rows).to_have_count(before + 1)
    hands.notebook.run_cell(2)
    hands.notebook.wait_output(2, "TypeError")
    hands.notebook.command("Roll Back…")
    expect(hands.dialog.locator(".bp-Preview")).to_contain_text("undone")
    assert faint_in_either_theme(hands.page, ".bp-Preview, .jp-Dialog-header") == []
    hands.notebook.picture("buttons-preview")
    hands.dialog.get_by_label("Save what is left").uncheck()
    hands.answer("Roll back")
    hands.notebook.wait_notified("Back at")
    expect(hands.panel.locator(".bp-title", has_text="before-rollback")).to_have_count(0)
    hands.notebook.command("Fork…")
    hands.dialog.get_by_label("How many").fill("1")
    hands.dialog.get_by_label("Their names").fill("other")
    assert faint_in_either_theme(hands.page, ".bp-Form, .jp-Dialog-header") == []
    hands.answer("Fork")
    expect(hands.row("other")).to_be_visible()


def test_a_dimmed_cell_can_be_read_whatever_is_in_it(hands: Steering) -> None:
    left = hands.notebook.cell(2)
    expect(left.get_by_text("Ran on a future that was left")).to_be_visible()
    assert faint_in_either_theme(hands.page, ".bp-mod-left") == []
    hands.notebook.picture("buttons-dimmed")


def test_a_long_refusal_can_be_read_to_its_end(hands: Steering) -> None:
    name = "no-name/" * 15
    hands.notebook.command("Fork…")
    hands.dialog.get_by_label("How many").fill("1")
    hands.dialog.get_by_label("Their names").fill(name)
    hands.answer("Fork")
    hands.page.get_by_role("button", name="Read all of it").click()
    expect(hands.dialog.locator("p")).to_have_text([re.compile(name), re.compile("are fine$")])
    hands.notebook.picture("buttons-refusal")
    hands.answer("Close")
    expect(hands.dialog).to_have_count(0)
    # Chromium notes each answer that is a refusal.
    said = hands.notebook.complaints
    said[:] = [it for it in said if "status of 400" not in it or "/branchpoint/act" not in it]


def test_a_notebook_whose_kernel_was_ended_chooses_one_from_the_panel(hands: Steering) -> None:
    hands.notebook.choose("Kernel", "Shut Down Kernel")
    words = hands.panel.locator(".bp-Panel-words")
    expect(words).to_contain_text("this is its lineage on record")
    hands.notebook.picture("buttons-no-kernel")
    hands.choose_machine("Choose a kernel…")
    expect(words).to_be_hidden()
    expect(hands.row("other~1")).to_be_visible()
    hands.notebook.run_cell(0)

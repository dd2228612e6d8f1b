"""One page of JupyterLab: what no other test presses of commands and dialogs, and how they read."""

import re
from collections.abc import Generator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.support.jupyter_server import JupyterServer
from tests.support.page_parts import faint_in_either_theme
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


class Hands:
    """A page with a notebook and the panel, and what is pressed there."""

    def __init__(self, notebook: NotebookPage) -> None:
        self.notebook = notebook
        self.page: Page = notebook.page
        self.panel: Locator = self.page.locator("#branchpoint-panel")
        self.dialog: Locator = self.page.locator(".jp-Dialog")
        self.told: Locator = self.page.locator(".jp-toast-message")
        self.state: Locator = self.page.locator(".bp-Status")

    def answer(self, words: str) -> None:
        """Press a button of the dialog that is open, by its words."""
        # JupyterLab has other names for some of its buttons than their words.
        shown = re.compile(f"^{re.escape(words)}$")
        self.dialog.locator(".jp-Dialog-button", has_text=shown).click()

    def row(self, name: str) -> Locator:
        """The row of a checkpoint or a branch in the panel, by what it is called."""
        title = re.compile(f"^{re.escape(name)}$")
        return self.panel.get_by_role("treeitem").filter(
            has=self.page.locator(".bp-title", has_text=title)
        )

    def choose_machine(self, link: str) -> None:
        """Press what the panel offers to a notebook that is not in a machine, and choose one."""
        self.panel.get_by_role("button", name=link).click()
        self.dialog.get_by_role("combobox").select_option("Python 3 (microVM)")
        self.answer("Select")
        expect(self.state).to_have_text(re.compile(r"^main · (.* · )?idle$"))


@pytest.fixture(scope="module")
def hands(
    lab: JupyterServer, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Hands]:
    """On a notebook that runs outside a machine to begin with."""
    write_notebook(lab.folder / "buttons.ipynb", *CELLS, kernel="python3")
    page = browser.new_page(viewport={"width": 1600, "height": 1000})
    notebook = NotebookPage(page, pictures(tmp_path_factory.mktemp("pictures")))
    notebook.open(lab, ROUTE, kernel="Python 3")
    yield Hands(notebook)
    assert notebook.complaints == []
    page.close()


def test_a_notebook_outside_a_machine_is_told_so_and_given_one(hands: Hands) -> None:
    hands.notebook.command("Show the Lineage")
    expect(hands.panel.locator(".bp-Panel-words")).to_contain_text("outside a machine")
    expect(hands.state).to_be_hidden()
    expect(hands.notebook.panel.locator(".bp-ToolbarButton").first).to_be_hidden()
    hands.notebook.picture("buttons-outside")
    hands.choose_machine("Change kernel…")
    expect(hands.panel.locator(".bp-Panel-words")).to_be_hidden()
    expect(hands.notebook.panel.locator(".bp-ToolbarButton").first).to_be_visible()


def test_the_palette_saves_goes_back_and_forks_and_its_dialogs_can_be_read(hands: Hands) -> None:
    for number in (0, 1):
        hands.notebook.run_cell(number)
    rows = hands.panel.get_by_role("treeitem")
    before = rows.count()
    hands.notebook.command("Checkpoint")
    expect(hands.told.last).to_contain_text("Saved as")
    expect(rows).to_have_count(before + 1)
    hands.notebook.run_cell(2)
    hands.notebook.wait_output(2, "TypeError")
    hands.notebook.command("Roll Back…")
    expect(hands.dialog.locator(".bp-Preview")).to_contain_text("undone")
    assert faint_in_either_theme(hands.page, ".bp-Preview, .jp-Dialog-header") == []
    hands.notebook.picture("buttons-preview")
    hands.dialog.get_by_label("Save what is left").uncheck()
    hands.answer("Roll back")
    expect(hands.told.last).to_contain_text("Back at")
    expect(hands.panel.locator(".bp-title", has_text="before-rollback")).to_have_count(0)
    hands.notebook.command("Fork…")
    hands.dialog.get_by_label("How many").fill("1")
    hands.dialog.get_by_label("Their names").fill("other")
    assert faint_in_either_theme(hands.page, ".bp-Form, .jp-Dialog-header") == []
    hands.answer("Fork")
    expect(hands.row("other")).to_be_visible()


def test_a_dimmed_cell_can_be_read_whatever_is_in_it(hands: Hands) -> None:
    left = hands.notebook.cell(2)
    expect(left.get_by_text("Ran on a future that was left")).to_be_visible()
    assert faint_in_either_theme(hands.page, ".bp-mod-left") == []
    hands.notebook.picture("buttons-dimmed")


def test_a_long_refusal_can_be_read_to_its_end(hands: Hands) -> None:
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

"""Two branches side by side in JupyterLab: what ran in each, and how their machines differ."""

from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.support.jupyter_server import JupyterServer
from tests.support.web_page import PATIENCE_MS, NotebookPage, pictures, write_notebook

pytestmark = [pytest.mark.vm, pytest.mark.browser]

CELLS = ("x = 1", "%fork 1 --names forest", "score = x + 1\nscore", "%switch forest")
OTHER = "score = x + 41\nscore"


@pytest.fixture(scope="module")
def compared(
    lab: JupyterServer, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Generator[NotebookPage]:
    """A notebook whose branches `main` and `forest` ran the same cell, edited in between."""
    write_notebook(lab.folder / "two.ipynb", *CELLS)
    notebook = opened(lab, browser, tmp_path_factory.mktemp("pictures"))
    for number in range(len(CELLS)):
        notebook.run_cell(number)
    notebook.write_cell(2, OTHER)
    notebook.run_cell(2)
    notebook.wait_output(2, "42")
    # The page hears of a switch from elsewhere than of what its cells put out.
    expect(notebook.page.locator(".bp-Status")).to_contain_text("forest · ")
    compare(notebook)
    yield notebook
    assert notebook.complaints == []
    notebook.page.close()


def opened(server: JupyterServer, browser: Browser, otherwise: Path) -> NotebookPage:
    page = browser.new_page(viewport={"width": 1500, "height": 1000})
    notebook = NotebookPage(page, pictures(otherwise))
    notebook.open(server, "lab/workspaces/two/tree/two.ipynb")
    return notebook


def compare(notebook: NotebookPage) -> None:
    """Choose it from the palette, and the other branch in the dialog."""
    page = notebook.page
    notebook.command("Compare Branches")
    page.locator(".jp-Dialog .jp-mod-accept").click()
    expect(page.get_by_role("heading", name="Branches forest and main")).to_be_visible()
    expect(page.locator(".bp-Compare-summary")).to_be_visible(timeout=PATIENCE_MS)


def test_a_cell_that_was_edited_between_is_changed_and_its_words_are_marked(
    compared: NotebookPage,
) -> None:
    page = compared.page
    expect(page.locator(".bp-Compare-summary")).to_contain_text("1 changed")
    expect(page.locator(".bp-Compare del")).to_have_text("41")
    expect(page.locator(".bp-Compare ins")).to_have_text("1")


def test_the_outputs_of_the_branch_that_the_notebook_shows_are_there(
    compared: NotebookPage,
) -> None:
    changed = compared.page.locator(".bp-Compare tbody[data-kind=changed]")
    expect(changed.locator(".bp-Compare-outputs > td").first).to_have_text("42")
    columns = compared.page.locator(".bp-Compare-branch")
    expect(columns.nth(0)).to_contain_text("outputs as in two.ipynb")
    expect(columns.nth(1)).to_contain_text("no notebook of it is open here")


def test_below_stands_how_the_machines_differ(compared: NotebookPage) -> None:
    machines = compared.page.locator(".bp-Compare-machines")
    # Looking into two emulated machines takes its time.
    expect(machines).to_contain_text("score", timeout=PATIENCE_MS)
    expect(machines).to_contain_text("variables")
    compared.picture("compare-light")


def test_keys_and_buttons_lead_to_what_differs(compared: NotebookPage) -> None:
    page = compared.page
    page.get_by_role("button", name="Next difference").click()
    assert page.evaluate("document.activeElement.dataset.kind") == "changed"
    page.get_by_role("heading", name="Branches forest and main").click()
    page.keyboard.press("p")
    assert page.evaluate("'differs' in document.activeElement.dataset")
    page.get_by_role("heading", name="Branches forest and main").click()
    page.get_by_role("button", name="Previous difference").click()
    assert page.evaluate("'differs' in document.activeElement.dataset")


def test_what_both_began_with_is_shown_on_asking_and_hidden_as_not_differing(
    compared: NotebookPage,
) -> None:
    page = compared.page
    begun = page.locator(".bp-Compare tbody[data-kind=common]").first
    page.get_by_role("button", name="in common").click()
    expect(begun).to_contain_text("x = 1")
    only = page.get_by_label("Only what differs")
    only.check()
    expect(begun).to_be_hidden()
    only.uncheck()
    expect(begun).to_be_visible()


def test_a_comparison_says_when_it_is_out_of_date_and_is_made_anew(
    compared: NotebookPage,
) -> None:
    page = compared.page
    stale = page.locator(".bp-Compare-stale")
    expect(stale).to_be_hidden()
    compared.write_cell(2, "score = x + 98\nscore")
    compared.run_cell(2)
    compared.wait_output(2, "99")
    expect(stale).to_be_visible(timeout=PATIENCE_MS)
    stale.get_by_role("button").click()
    expect(page.locator(".bp-Compare")).to_contain_text("score = x + 98", timeout=PATIENCE_MS)
    expect(stale).to_be_hidden()
    summary = page.locator(".bp-Compare-summary").element_handle()
    page.locator(".bp-Compare-bar").get_by_role("button", name="Compare again").click()
    compared.wait_until(lambda: not summary.evaluate("it => it.isConnected"))
    expect(page.locator(".bp-Compare")).to_contain_text("score = x + 98")


def test_it_reads_as_well_in_the_dark(compared: NotebookPage) -> None:
    page = compared.page
    page.evaluate(
        "window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})"
    )
    page.locator("body[data-jp-theme-light='false']").wait_for(state="attached")
    compared.picture("compare-dark")
    assert contrast(page, ".bp-Compare del") >= 4.5
    assert contrast(page, ".bp-Compare-branch .bp-Compare-words") >= 4.5


def contrast(page: Page, selector: str) -> float:
    """Between the letters of an element and the first paper behind them, as WCAG 2 counts it."""
    return page.evaluate(
        """selector => {
            const node = document.querySelector(selector);
            const rgb = text => text.match(/[\\d.]+/g).map(Number);
            const light = ([r, g, b]) => {
                const part = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
                return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
            };
            let paper = node, back;
            do {
                back = rgb(getComputedStyle(paper).backgroundColor);
                paper = paper.parentElement;
            } while (back.length === 4 && back[3] === 0);
            const both = [light(rgb(getComputedStyle(node).color)), light(back)];
            return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
        }""",
        selector,
    )

"""Notebook 7 in a real browser: Run All runs the quickstart, and all of ours that has a place."""

import re
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.browser.conftest import OpenPage
from tests.support.jupyter_server import JupyterServer, jupyter_server
from tests.support.quickstart import QUICKSTART, assert_every_proof_held
from tests.support.web_page import write_notebook, write_settings

from branchpoint_vmruntime.home import Home

pytestmark = [pytest.mark.vm, pytest.mark.browser]

CELLS = ("n = 1", "n = 2", "%lineage")


@pytest.fixture(scope="module")
def notebook7(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Generator[JupyterServer]:
    """A running Notebook 7."""
    assert home.database.exists()
    exposed = "--JupyterNotebookApp.expose_app_in_browser=True"
    with jupyter_server("notebook", tmp_path_factory.mktemp("notebook"), exposed) as server:
        write_settings(server)
        yield server


@pytest.mark.timeout(1200)
def test_run_all_runs_the_quickstart(notebook7: JupyterServer, open_page: OpenPage) -> None:
    stored = Path(shutil.copy(QUICKSTART, notebook7.folder / "quickstart.ipynb"))
    notebook = open_page(notebook7, "notebooks/quickstart.ipynb")
    notebook.run_all()
    notebook.save(stored)
    assert_every_proof_held(stored)
    notebook.picture("notebook-quickstart")


def test_toolbar_panel_commands_and_widget_are_there(
    notebook7: JupyterServer, open_page: OpenPage
) -> None:
    write_notebook(notebook7.folder / "places.ipynb", *CELLS)
    notebook = open_page(notebook7, "notebooks/places.ipynb")
    page = notebook.page
    buttons = notebook.panel.locator(".bp-ToolbarButton")
    dialog = page.locator(".jp-Dialog")
    panel, tree = page.locator("#branchpoint-panel"), notebook.cell(2).locator(".bp-lineage")
    notebook.run_cell(0)
    expect(buttons).to_have_count(3)
    buttons.and_(page.locator("[data-label='Checkpoint']")).locator("jp-button").click()
    notebook.wait_notified("Saved as")

    page.keyboard.press("Alt+Shift+L")
    expect(panel.get_by_role("treeitem")).to_have_count(3)
    expect(panel.locator(".bp-Panel-head")).to_contain_text("main")

    notebook.run_cell(1)
    notebook.run_cell(2)
    expect(tree).to_be_visible()
    buttons.and_(page.locator("[data-label='Roll back']")).locator("jp-button").click()
    expect(dialog).to_contain_text("n = 2")
    dialog.get_by_role("button", name="Roll back", exact=True).click()
    expect(notebook.cell(1)).to_have_class(re.compile("bp-mod-left"))
    for shown in (panel, tree):
        expect(shown.get_by_role("treeitem").filter(has_text="before-rollback")).to_have_count(1)
        expect(shown.get_by_role("button", name="Side by side", exact=True)).to_be_visible()

    notebook.command("Fork…")
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.locator(".bp-Status")).to_have_count(0)
    notebook.picture("notebook-places")

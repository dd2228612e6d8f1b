"""The widget of `%lineage` in JupyterLab: live, there again after a reload, and after a restart."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect
from tests.browser.conftest import OpenPage
from tests.support.jupyter_server import JupyterServer
from tests.support.web_page import NotebookPage, write_notebook

pytestmark = [pytest.mark.vm, pytest.mark.browser]

CELLS = ("n = 1", "%checkpoint one", "%lineage", "%checkpoint two", "n = 2", "%lineage")
ROUTE = "lab/workspaces/lineage/tree/lineage.ipynb"


def widget(notebook: NotebookPage, number: int) -> Locator:
    """The tree that is drawn below a cell."""
    return notebook.cell(number).locator(".bp-lineage")


def stills(notebook: NotebookPage, number: int) -> Locator:
    """The picture and the tables that are to be seen below a cell."""
    return (
        notebook.cell(number)
        .locator("[data-mime-type='image/svg+xml'] >> visible=true")
        .or_(notebook.cell(number).locator(".branchpoint-lineage-table >> visible=true"))
    )


def path(lab: JupyterServer) -> Path:
    """The notebook's file."""
    return lab.folder / "lineage.ipynb"


def test_the_widget_is_live_and_hides_what_is_for_who_has_none(
    lab: JupyterServer, open_page: OpenPage
) -> None:
    write_notebook(path(lab), *CELLS)
    notebook = open_page(lab, ROUTE)
    for number in range(3):
        notebook.run_cell(number)
    expect(widget(notebook, 2)).to_be_visible()
    expect(widget(notebook, 2)).to_contain_text("one")
    expect(stills(notebook, 2)).to_have_count(0)
    notebook.picture("lineage-widget")
    notebook.run_cell(3)
    expect(widget(notebook, 2)).to_contain_text("two")
    notebook.save(path(lab))


def test_a_page_that_is_loaded_again_and_a_second_one_have_it_without_running_the_cell(
    lab: JupyterServer, open_page: OpenPage
) -> None:
    notebook, second = open_page(lab, ROUTE), open_page(lab, ROUTE.replace("/lineage/", "/second/"))
    for each in (notebook, second):
        expect(widget(each, 2)).to_contain_text("two")
        expect(stills(each, 2)).to_have_count(0)
    notebook.write_cell(3, "%checkpoint three")
    notebook.run_cell(3)
    for each in (notebook, second):
        expect(widget(each, 2)).to_contain_text("three")


def test_after_a_restart_it_goes_on_with_the_kernel_that_came(
    lab: JupyterServer, open_page: OpenPage
) -> None:
    notebook = open_page(lab, ROUTE)
    expect(widget(notebook, 2)).to_be_visible()
    # JupyterLab complains of what it has asked the kernel for and that a restart leaves unanswered.
    notebook.run_cell(4)
    notebook.choose("Kernel", "Restart Kernel…")
    notebook.page.locator(".jp-Dialog .jp-mod-accept").click()
    notebook.page.locator(".jp-Dialog").wait_for(state="detached")
    notebook.wait_kernel("idle")
    notebook.picture("lineage-widget-restarted")
    expect(notebook.cell(2).get_by_text("The kernel was restarted")).to_be_hidden()
    notebook.write_cell(3, "%checkpoint four")
    notebook.run_cell(3)
    notebook.run_cell(5)
    for number in (2, 5):
        expect(widget(notebook, number)).to_contain_text("four")


def test_a_page_that_is_loaded_after_its_kernel_was_replaced_has_it_and_tells_what_was_cut_short(
    lab: JupyterServer, open_page: OpenPage
) -> None:
    notebook = open_page(lab, ROUTE)
    notebook.write_cell(4, "import time; print('on'); time.sleep(600)")
    notebook.start_cell(4)
    notebook.wait_output(4, "on")
    notebook.save(path(lab))
    (session,) = [it for it in lab.ask("GET", "sessions").json() if it["path"] == path(lab).name]
    # Nobody is there to ask the new kernel for what the old one had.
    notebook.page.goto("about:blank")
    assert lab.ask("POST", f"kernels/{session['kernel']['id']}/restart").ok
    notebook.open(lab, ROUTE)
    expect(widget(notebook, 2)).to_contain_text("two")
    expect(stills(notebook, 2)).to_have_count(0)
    expect(notebook.cell(4)).to_contain_text("Its machine ended before it was done")
    notebook.write_cell(3, "%checkpoint five")
    notebook.run_cell(3)
    expect(widget(notebook, 2)).to_contain_text("five")
    notebook.picture("lineage-widget-replaced")

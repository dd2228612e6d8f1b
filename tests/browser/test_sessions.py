"""A notebook in JupyterLab that is paused, closed and opened again goes on where it was."""

import re

import pytest
from playwright.sync_api import expect
from tests.browser.conftest import OpenPage, Steer
from tests.support.jupyter_server import JupyterServer
from tests.support.web_page import write_notebook

pytestmark = [pytest.mark.vm, pytest.mark.browser]

NAME = "lasting"
ROUTE = f"lab/workspaces/{NAME}/tree/{NAME}.ipynb"
SLIDER = "import ipywidgets\nknob = ipywidgets.IntSlider(value=7)\nknob"
HELLO = "print('hello', knob.value)"


def test_a_notebook_that_was_paused_and_closed_goes_on_where_it_was(
    lab: JupyterServer, open_page: OpenPage
) -> None:
    codes = (
        SLIDER,
        "%checkpoint fitted",
        "%pause",
        HELLO,
        "print('again')",
        "%switch main~1",
        "%costs",
    )
    write_notebook(lab.folder / f"{NAME}.ipynb", *codes)
    notebook = open_page(lab, ROUTE)
    notebook.run_cell(0)
    expect(notebook.slider(0)).to_have_text("7")
    for number in (1, 2):
        notebook.run_cell(number)
    notebook.wait_output(2, "main paused in")
    notebook.run_cell(3)
    notebook.wait_output(3, "hello 7")
    assert "main resumed in" in notebook.output(3)
    notebook.picture("lab-sessions-resumed")

    notebook.choose("Kernel", "Shut Down Kernel")
    notebook.panel.locator(".jp-Toolbar-kernelName", has_text="No Kernel").wait_for()
    assert lab.ask("GET", "kernels").json() == []
    # A page that finds the slider of an ended kernel in a document complains, whichever kernel.
    notebook.choose("Edit", "Clear Outputs of All Cells")
    notebook.save(lab.folder / f"{NAME}.ipynb")

    again = open_page(lab, ROUTE)
    again.run_cell(4)
    again.wait_output(4, "again")
    said = again.output(4)
    assert "this notebook was here before" in said
    assert "%switch main~1" in said
    again.picture("lab-sessions-here-before")
    again.run_cell(5)
    again.wait_output(5, "main~1")
    again.run_cell(3)
    again.wait_output(3, "hello 7")
    again.picture("lab-sessions-went-on")
    again.run_cell(6)
    charts = again.cell(6).locator("img")
    again.wait_until(lambda: charts.count() and charts.evaluate("it => it.naturalWidth") > 500)
    assert "lived" in again.output(6)
    charts.scroll_into_view_if_needed()
    again.picture("lab-sessions-costs")


def test_a_notebook_that_is_renamed_on_the_page_keeps_what_it_saved(
    lab: JupyterServer, steer: Steer
) -> None:
    codes = ("x = 1", "%checkpoint loaded", "x = 2", "%rollback loaded", "print('x is', x)")
    steering = steer("first-name", *codes)
    notebook = steering.notebook
    for number in range(3):
        notebook.run_cell(number)
    notebook.choose("File", "Rename Notebook…")
    steering.dialog.locator("input").fill("second-name.ipynb")
    steering.answer("Rename")
    notebook.wait_until(lambda: (lab.folder / "second-name.ipynb").exists())
    shown = steering.panel.locator("[aria-label^='Lineage of']")
    expect(shown).to_have_attribute("aria-label", re.compile(r"/second-name\.ipynb$"))
    notebook.choose("Kernel", "Restart Kernel…")
    steering.answer("Restart")
    steering.dialog.wait_for(state="detached")
    notebook.run_cell(3)
    notebook.run_cell(4)
    notebook.wait_output(4, "x is 1")
    expect(steering.row("loaded")).to_be_visible()

"""In JupyterLab, in a real browser, a notebook is as alive as on any kernel, and goes back."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.conftest import OpenPage
from tests.support.jupyter_server import JupyterServer
from tests.support.quickstart import QUICKSTART, assert_every_proof_held
from tests.support.web_page import NotebookPage, write_notebook

pytestmark = [pytest.mark.vm, pytest.mark.browser]

LOOP = "print('on')\nimport time\nwhile True: time.sleep(0.1)"
SLIDER = "import ipywidgets\nknob = ipywidgets.IntSlider(value=7)\nknob"


def open_cells(lab: JupyterServer, open_page: OpenPage, name: str, *codes: str) -> NotebookPage:
    """A page with a new notebook of those cells."""
    write_notebook(lab.folder / f"{name}.ipynb", *codes)
    return open_page(lab, route(name))


def route(name: str) -> str:
    """Where a notebook is opened by itself: a workspace remembers what else was open in it."""
    return f"lab/workspaces/{name}/tree/{name}.ipynb"


def metadata(lab: JupyterServer, name: str, number: int) -> dict[str, Any]:
    """What is stored with a cell of a saved notebook."""
    stored = json.loads((lab.folder / f"{name}.ipynb").read_text())
    return stored["cells"][number]["metadata"]


@pytest.mark.timeout(1200)
def test_run_all_runs_the_quickstart(lab: JupyterServer, open_page: OpenPage) -> None:
    stored = Path(shutil.copy(QUICKSTART, lab.folder / "quickstart.ipynb"))
    notebook = open_page(lab, route("quickstart"))
    notebook.run_all()
    notebook.save(stored)
    assert_every_proof_held(stored)
    notebook.picture("lab-quickstart")


def test_an_interrupt_from_the_menu_stops_a_loop(lab: JupyterServer, open_page: OpenPage) -> None:
    notebook = open_cells(lab, open_page, "interrupt", LOOP, "print('next')")
    notebook.start_cell(0)
    notebook.wait_output(0, "on")
    notebook.wait_kernel("busy")
    notebook.choose("Kernel", "Interrupt Kernel")
    notebook.wait_output(0, "KeyboardInterrupt")
    notebook.wait_kernel("idle")
    notebook.run_cell(1)
    notebook.wait_output(1, "next")


def test_a_restart_from_the_menu_gives_a_fresh_kernel_and_sliders_work_again(
    lab: JupyterServer, open_page: OpenPage
) -> None:
    notebook = open_cells(lab, open_page, "restart", SLIDER, "print('knob' in globals())")
    notebook.run_cell(0)
    expect(notebook.slider(0)).to_have_text("7")
    notebook.choose("Kernel", "Restart Kernel…")
    notebook.page.locator(".jp-Dialog .jp-mod-accept").click()
    notebook.page.locator(".jp-Dialog").wait_for(state="detached")
    notebook.run_cell(1)
    notebook.wait_output(1, "False")
    notebook.run_cell(0)
    notebook.move_slider(0, 5)
    notebook.write_cell(1, "print(knob.value)")
    notebook.run_cell(1)
    notebook.wait_output(1, "5")


def test_a_slider_goes_back_with_the_machine_and_still_works_and_the_document_stays(
    lab: JupyterServer, open_page: OpenPage
) -> None:
    codes = (SLIDER, "%checkpoint seven", "%rollback seven", "print(knob.value)", "1")
    notebook = open_cells(lab, open_page, "slider", *codes)
    notebook.run_cell(0)
    notebook.run_cell(1)
    notebook.move_slider(0, 3)
    notebook.run_cell(3)
    notebook.wait_output(3, "3")
    notebook.write_cell(4, "'edited since'")
    notebook.run_cell(2)
    expect(notebook.slider(0)).to_have_text("7")
    notebook.picture("lab-slider-rolled-back")
    assert "edited since" in notebook.cell(4).inner_text()
    notebook.move_slider(0, 5)
    notebook.run_cell(3)
    notebook.wait_output(3, "5")


def test_a_reloaded_page_finds_its_kernel_and_its_slider(
    lab: JupyterServer, open_page: OpenPage
) -> None:
    notebook = open_cells(lab, open_page, "reload", SLIDER, "print(knob.value)")
    notebook.run_cell(0)
    notebook.move_slider(0, 4)
    notebook.save(lab.folder / "reload.ipynb")
    notebook.open(lab, route("reload"))
    expect(notebook.slider(0)).to_have_text("4")
    notebook.move_slider(0, 6)
    notebook.run_cell(1)
    notebook.wait_output(1, "6")


def test_forks_show_a_cell_side_by_side(lab: JupyterServer, open_page: OpenPage) -> None:
    codes = ("%fork 2 --names left,right", "%%branch all\nprint('in', branch.name)")
    notebook = open_cells(lab, open_page, "fork", *codes)
    notebook.run_cell(0)
    notebook.run_cell(1)
    notebook.wait_output(1, "in right")
    notebook.picture("lab-fork")
    left, right = (
        notebook.cell(1).get_by_text(f"in {name}").bounding_box() for name in ("left", "right")
    )
    assert left is not None
    assert right is not None
    assert left["y"] == right["y"]
    assert left["x"] < right["x"]


def test_a_secret_is_typed_in_as_dots_and_is_neither_on_the_page_nor_stored(
    lab: JupyterServer, open_page: OpenPage
) -> None:
    value = "typed-by-hand-593"
    codes = ("%secrets add TYPED_KEY --host api.example.org", "import os\nos.environ['TYPED_KEY']")
    notebook = open_cells(lab, open_page, "secret", *codes)
    notebook.start_cell(0)
    asked = notebook.cell(0).locator("input.jp-Stdin-input")
    assert asked.get_attribute("type") == "password"
    asked.fill(value)
    asked.press("Enter")
    notebook.wait_output(0, "TYPED_KEY goes out with requests to api.example.org")
    notebook.run_cell(1)
    notebook.wait_output(1, "branchpoint-TYPED_KEY-")
    stored = lab.folder / "secret.ipynb"
    notebook.save(stored)
    assert "goes out with requests" in stored.read_text()
    for place in (stored.read_text(), notebook.page.content(), lab.log):
        assert value not in place


def test_times_of_cells_are_the_hosts_after_a_rollback(
    lab: JupyterServer, open_page: OpenPage
) -> None:
    began = datetime.now(UTC)
    codes = ("%checkpoint early", "import time; time.sleep(1)", "%rollback early", "print('late')")
    notebook = open_cells(lab, open_page, "times", *codes)
    for number in range(len(codes)):
        notebook.run_cell(number)
    notebook.wait_output(3, "late")
    notebook.save(lab.folder / "times.ipynb")
    last = began
    for number in range(len(codes)):
        noted = metadata(lab, "times", number)["execution"]
        started = datetime.fromisoformat(noted["iopub.status.busy"])
        ended = datetime.fromisoformat(noted["shell.execute_reply"])
        assert last <= started <= ended
        last = ended - timedelta(milliseconds=1)
    assert last <= datetime.now(UTC)

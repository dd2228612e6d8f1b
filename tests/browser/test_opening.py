"""A branch is opened as a notebook from the panel, continued there, and given back when closed."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect
from tests.browser.conftest import OpenPage, Steer
from tests.support.in_front import ENDS_WITH_IT, IN_FRONT, RUN_IN_FRONT, STATE_IN_FRONT
from tests.support.jupyter_server import JupyterServer
from tests.support.web_page import write_notebook

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchRecord, BranchState
from branchpoint_vmruntime.lineage.journal import Journal

pytestmark = [pytest.mark.vm, pytest.mark.browser]

# JupyterLab tells every notebook anew what is set for all when any of that changes.
CHANGE_SETTINGS = """() => {
    const { sessionContext } = window.jupyterapp.shell.currentWidget;
    const told = new Promise(resolve => sessionContext.kernelPreferenceChanged.connect(resolve));
    window.jupyterapp.commands.execute('notebook:toggle-autoclosing-brackets');
    return told.then(() => true);
}"""
RENAME = "window.jupyterapp.shell.currentWidget.context.rename('renamed.ipynb')"


def ridge_of(home: Home, notebook: str = "demo.ipynb") -> BranchRecord:
    """The branch as it is on record in the notebook it is of."""
    with Journal.read(home.database) as journal:
        (demo,) = [it for it in journal.sessions() if it.key.endswith(f"/{notebook}")]
        return next(it for it in journal.branches(demo.id) if it.name == "ridge")


def test_a_branch_is_continued_in_a_notebook_of_its_own_until_that_is_closed(
    lab: JupyterServer, open_page: OpenPage, home: Home
) -> None:
    begin = "import itertools\nticks = itertools.count(593)\nprint(next(ticks))"
    file = Path(lab.folder / "demo.ipynb")
    write_notebook(file, begin, "%fork 1 --names ridge", "%switch ridge", "print(next(ticks))")
    notebook = open_page(lab, "lab/workspaces/opening/tree/demo.ipynb")
    page = notebook.page
    page.set_viewport_size({"width": 1600, "height": 1000})
    page.locator(".bp-Status").click()
    notebook.run_cell(0)
    notebook.run_cell(1)
    panel = page.locator("#branchpoint-panel")
    title = page.locator(".bp-title", has_text=re.compile("^ridge$"))
    ridge = panel.get_by_role("treeitem").filter(has=title)
    ridge.click()
    panel.get_by_role("button", name="Open as notebook", exact=True).first.click()
    notebook.wait_until(lambda: page.evaluate(IN_FRONT) == "demo-ridge.ipynb")
    notebook.wait_notified("open as demo-ridge.ipynb")
    copy = page.locator(".jp-NotebookPanel").filter(visible=True).last
    # Beside the panel and another notebook there is no room for the indicator.
    notebook.wait_until(lambda: page.evaluate(STATE_IN_FRONT) == "idle")
    page.evaluate(RUN_IN_FRONT, "print('there', next(ticks))")
    output = copy.locator(".jp-OutputArea").last
    expect(output).to_contain_text("there 594")
    expect(output).to_contain_text("this is ridge of demo.ipynb")
    notebook.picture("opening-there")
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    notebook.wait_until(lambda: page.evaluate(ENDS_WITH_IT))
    page.evaluate(CHANGE_SETTINGS)
    assert page.evaluate(ENDS_WITH_IT)
    page.evaluate(RENAME)
    notebook.open(lab, "lab/workspaces/renamed/tree/renamed.ipynb")
    notebook.wait_until(lambda: page.evaluate(ENDS_WITH_IT))
    page.evaluate("window.jupyterapp.commands.execute('application:close')")
    notebook.wait_until(lambda: ridge_of(home).state is BranchState.PAUSED)
    notebook.open(lab, "lab/workspaces/opening/tree/demo.ipynb")
    notebook.picture("opening-returned")
    notebook.run_cell(2)
    notebook.run_cell(3)
    notebook.wait_output(3, "595")


def test_one_that_is_closed_before_its_kernel_is_there_gives_the_branch_back(
    steer: Steer, lab: JupyterServer, home: Home
) -> None:
    steering = steer("early", "%fork 1 --names ridge", "%switch ridge")
    notebook, page = steering.notebook, steering.page
    notebook.run_cell(0)
    asked: list[Route] = []
    page.route(
        re.compile(r"/api/sessions(\?|$)"),
        lambda it: asked.append(it) if it.request.method == "POST" else it.continue_(),
    )
    steering.offered("ridge", "Open as notebook").click()
    notebook.wait_until(lambda: asked)
    notebook.wait_until(lambda: page.evaluate(IN_FRONT) == "early-ridge.ipynb")
    assert ridge_of(home, "early.ipynb").state is BranchState.LENT
    page.evaluate("window.jupyterapp.commands.execute('application:close')")
    notebook.wait_until(lambda: page.evaluate(IN_FRONT) == "early.ipynb")
    before = kernels(lab)
    with page.expect_response(lambda it: it.request is asked[0].request):
        asked[0].continue_()
    notebook.wait_until(lambda: kernels(lab) == before)
    notebook.run_cell(1)
    expect(steering.state).to_contain_text("ridge · ")
    # JupyterLab gives the kernel to the notebook that it was started for, which is no more.
    notebook.complaints[:] = [it for it in notebook.complaints if "Error: Disposed" not in it]


def kernels(lab: JupyterServer) -> set[str]:
    """Those that the server has."""
    return {it["id"] for it in lab.ask("GET", "kernels").json()}

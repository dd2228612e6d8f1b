"""The panel, the toolbar and the status bar in JupyterLab steer a real machine, and show it."""

import re

import pytest
from playwright.sync_api import Route, expect
from tests.browser.conftest import OpenPage, Steer
from tests.support.jupyter_server import JupyterServer
from tests.support.live_kernel import wait_until
from tests.support.steering import Steering
from tests.support.web_page import write_notebook

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.locks import holder
from branchpoint_vmruntime.removal import remove_session

pytestmark = [pytest.mark.vm, pytest.mark.browser]

_KNOWS_THE_LANGUAGE = """() =>
  window.jupyterapp.shell.currentWidget?.model?.getMetadata('language_info')?.version
"""

WHERE = "import branchpoint; print('on', branchpoint.identity().name)"
LEFT = "Ran on a future that was left"


def test_a_checkpoint_from_the_toolbar_is_told_and_is_in_the_tree(steer: Steer) -> None:
    steering = steer("saving", "x = 1")
    steering.notebook.run_cell(0)
    before = steering.panel.get_by_role("treeitem").count()
    steering.toolbar("Checkpoint").click()
    steering.notebook.wait_notified("Saved as")
    expect(steering.panel.get_by_role("treeitem")).to_have_count(before + 1)
    expect(steering.state).to_have_text(re.compile(r"^main · [\d.]+ [kMG]B · idle$"))
    expect(steering.panel.locator(".bp-Panel-head")).to_contain_text("main")
    steering.notebook.picture("panel-saved")


def test_cells_of_a_future_that_was_left_are_dimmed_until_they_are_run_again(
    steer: Steer, lab: JupyterServer
) -> None:
    steering = steer(
        "dimming", "x = 1", "%checkpoint early", "x = 2; print('two')", "%fork 1 --names other"
    )
    notebook = steering.notebook
    for number in range(4):
        notebook.run_cell(number)
    notebook.save(lab.folder / "dimming.ipynb")
    steering.offered("early", "Roll back…").click()
    sheet = steering.panel.locator(".bp-sheet")
    expect(sheet).to_contain_text("x = 2")
    notebook.picture("panel-rollback-preview")
    sheet.get_by_role("button", name="Roll back", exact=True).click()
    expect(notebook.cell(2).get_by_text(LEFT)).to_be_visible()
    expect(notebook.cell(0).get_by_text(LEFT)).to_have_count(0)
    expect(notebook.cell(2)).to_have_class(re.compile("bp-mod-left"))
    expect(notebook.cell(3)).to_contain_text("Its fork other lives on")
    assert not steering.is_dirty()
    notebook.picture("panel-dimmed")
    steering.dark()
    notebook.picture("panel-dimmed-dark")
    steering.light()
    notebook.run_cell(2)
    expect(notebook.cell(2).get_by_text(LEFT)).to_have_count(0)
    expect(notebook.cell(2)).not_to_have_class(re.compile("bp-mod-left"))


def test_forks_are_asked_for_by_name_and_a_switch_moves_the_notebook(steer: Steer) -> None:
    steering = steer("forking", "x = 1", WHERE)
    notebook = steering.notebook
    notebook.run_cell(0)
    steering.toolbar("Fork").click()
    dialog = steering.page.locator(".jp-Dialog")
    dialog.get_by_label("Their names").fill("left, right")
    notebook.picture("panel-fork-dialog")
    dialog.get_by_role("button", name="Fork", exact=True).click()
    expect(steering.row("right")).to_be_visible()
    notebook.picture("panel-forked")
    steering.offered("left", "Switch").click()
    expect(steering.state).to_contain_text("left · ")
    expect(steering.row("left")).to_have_attribute("aria-current", "true")
    notebook.run_cell(1)
    notebook.wait_output(1, "on left")
    notebook.command("Pause")
    expect(steering.state).to_have_text("left · paused")


def test_a_text_is_put_back_as_it_was_and_never_without_asking(steer: Steer) -> None:
    steering = steer("restoring", "x = 1", "%checkpoint one", "y = 2")
    notebook = steering.notebook
    for number in range(3):
        notebook.run_cell(number)
    notebook.write_cell(0, "x = 'edited since'")
    steering.toolbar("Roll back").click()
    dialog = steering.page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("Roll main back to one?")
    expect(dialog).to_contain_text("y = 2")
    notebook.picture("panel-rollback-dialog")
    dialog.get_by_role("button", name="Roll back", exact=True).click()
    steering.page.get_by_role("button", name="Restore its text").click()
    expect(dialog).to_contain_text("x = 'edited since' → x = 1")
    expect(dialog).to_contain_text("not saved")
    notebook.picture("panel-restore-dialog")
    assert "edited since" in notebook.cell(0).inner_text()
    dialog.get_by_role("button", name="Restore", exact=True).click()
    expect(notebook.cell(0).locator(".cm-content")).to_have_text("x = 1")
    assert "y = 2" in notebook.cell(2).inner_text()


def test_a_second_page_a_reload_and_a_restarted_kernel_show_what_is(
    steer: Steer, lab: JupyterServer, open_page: OpenPage
) -> None:
    steering = steer("reloading", "%checkpoint first", "%checkpoint second")
    notebook = steering.notebook
    notebook.run_cell(0)
    expect(steering.row("first")).to_be_visible()
    other = Steering(open_page(lab, "lab/workspaces/other/tree/reloading.ipynb"))
    other.show_panel()
    expect(other.row("first")).to_be_visible()
    notebook.run_cell(1)
    expect(other.row("second")).to_be_visible()
    other.notebook.open(lab, "lab/workspaces/other/tree/reloading.ipynb")
    # A workspace that was not stored yet is put together without the panel.
    other.show_panel()
    expect(other.row("second")).to_be_visible()
    notebook.choose("Kernel", "Restart Kernel…")
    steering.page.locator(".jp-Dialog .jp-mod-accept").click()
    expect(steering.row("main~1")).to_be_visible()
    expect(other.row("main~1")).to_be_visible()
    expect(steering.toolbar("Checkpoint")).to_be_enabled()
    notebook.picture("panel-restarted")
    # Two pages on one kernel hear of each other's comms, whatever the kernel is.
    for page in (notebook, other.notebook):
        page.complaints[:] = [said for said in page.complaints if "Comm not found" not in said]


def test_a_closed_notebook_has_its_session_listed_and_is_opened_from_there(
    steer: Steer, lab: JupyterServer
) -> None:
    close(lab, "closed.ipynb")
    steering = steer("open", "x = 1")
    listed = steering.panel.get_by_role("button", name="closed.ipynb")
    listed.click()
    expect(steering.row("before")).to_be_visible()
    expect(steering.panel.locator(".bp-Panel-head")).to_contain_text("closed")
    steering.notebook.picture("panel-closed")
    steering.panel.get_by_role("button", name="Back to the notebook in front").click()
    expect(steering.panel.locator(".bp-Panel-head")).not_to_contain_text("closed")
    listed.click()
    steering.panel.get_by_role("button", name="Open its notebook").click()
    expect(steering.page.locator(".lm-TabBar-tabLabel", has_text="closed.ipynb")).to_be_visible()


def test_a_closed_notebook_whose_kernel_runs_on_is_listed_and_steered_from_there(
    steer: Steer, lab: JupyterServer
) -> None:
    run_behind(lab, "behind.ipynb")
    steering = steer("before", "x = 1")
    listed = steering.panel.get_by_role("button", name="behind.ipynb")
    expect(listed).to_contain_text("running")
    listed.click()
    steering.offered("main", "Checkpoint…").click()
    sheet = steering.panel.locator(".bp-sheet")
    sheet.get_by_label("Label").fill("afar")
    sheet.get_by_role("button", name="Save", exact=True).click()
    expect(steering.row("afar")).to_be_visible()
    expect(steering.panel.locator(".bp-Panel-words")).to_contain_text("which is running")
    steering.notebook.picture("panel-running-elsewhere")
    steering.panel.get_by_role("button", name="Open its notebook").click()
    expect(listed).to_be_hidden()
    expect(steering.panel.locator(".bp-Panel-words")).to_be_hidden()
    expect(steering.row("afar")).to_be_visible()
    # Its kernel runs on, as JupyterLab has it; what is not saved would be asked about, such as its
    # language, which the page notes in the notebook once it has heard of it.
    steering.page.wait_for_function(_KNOWS_THE_LANGUAGE)
    steering.notebook.save(lab.folder / "behind.ipynb")
    steering.page.evaluate("window.jupyterapp.commands.execute('application:close')")
    expect(listed).to_contain_text("running")
    listed.click()
    expect(steering.row("afar")).to_be_visible()


def test_a_session_that_is_removed_is_shown_no_longer(
    steer: Steer, lab: JupyterServer, home: Home
) -> None:
    close(lab, "gone.ipynb")
    steering = steer("removed", "x = 1")
    listed = steering.panel.get_by_role("button", name="gone.ipynb")
    listed.click()
    expect(steering.row("before")).to_be_visible()
    remove(home, "gone.ipynb")
    expect(steering.row("main")).to_be_visible()
    expect(steering.row("before")).to_have_count(0)
    expect(listed).to_be_hidden()
    steering.notebook.choose("Kernel", "Shut Down Kernel")
    words = steering.panel.locator(".bp-Panel-words")
    expect(words).to_contain_text("It has no running kernel: this is its lineage on record.")
    remove(home, "removed.ipynb")
    expect(words).to_contain_text("This notebook has no kernel.")
    expect(steering.row("main")).to_have_count(0)


def test_a_kernel_that_is_being_started_is_said_to_be(steer: Steer) -> None:
    steering = steer("starting", "x = 1")
    words = steering.panel.locator(".bp-Panel-words")
    steering.notebook.choose("Kernel", "Shut Down Kernel")
    expect(words).to_contain_text("It has no running kernel")
    asked: list[Route] = []
    steering.page.route(
        re.compile(r"/api/sessions(\?|$)"),
        lambda it: asked.append(it) if it.request.method == "POST" else it.continue_(),
    )
    steering.ask_for_machine("Choose a kernel…")
    expect(words).to_contain_text("Its kernel is being started…")
    steering.notebook.wait_until(lambda: asked)
    asked[0].continue_()
    expect(words).to_be_hidden()


def run_behind(lab: JupyterServer, name: str) -> str:
    """Have the kernel of a notebook run that is not open, with a checkpoint `before`; its id."""
    write_notebook(lab.folder / name, "x = 1")
    kernel = {"name": "branchpoint"}
    wanted = {"path": name, "name": name, "type": "notebook", "kernel": kernel}
    started = lab.ask("POST", "sessions", wanted).json()
    with lab.connect(started["kernel"]["id"]) as connected:
        connected.run("%checkpoint before")
    return started["id"]


def close(lab: JupyterServer, name: str) -> None:
    """Leave behind the session of a notebook that is not open, with a checkpoint `before`."""
    assert lab.ask("DELETE", f"sessions/{run_behind(lab, name)}").ok


def remove(home: Home, name: str) -> None:
    """Remove the session of a notebook, as `branchpoint rm` does once it is closed."""
    with Journal.read(home.database) as journal:
        (found,) = [it.id for it in journal.sessions() if it.key.endswith(f"/{name}")]
    wait_until(lambda: holder(home.layers / found) is None)
    remove_session(home, found)

"""What is not saved is never written over or left out without being asked about."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect
from tests.browser.conftest import Steer
from tests.support.jupyter_server import JupyterServer
from tests.support.steering import Steering

pytestmark = [pytest.mark.vm, pytest.mark.browser]

STATUS = "window.jupyterapp.shell.currentWidget.sessionContext.kernelDisplayStatus"
CONTEXT = "window.jupyterapp.shell.currentWidget.context"
IN_FRONT = f"{CONTEXT}.path"


def sources(file: Path) -> list[str]:
    """The cells of a notebook's file."""
    return ["".join(cell["source"]) for cell in json.loads(file.read_text())["cells"]]


def refuse_to_save(route: Route) -> None:
    """As a server whose disk is full."""
    if route.request.method == "PUT":
        route.fulfill(status=500, json={"message": "No space left on device"})
    else:
        route.continue_()


def forget_refusals(steering: Steering) -> None:
    """JupyterLab notes each of them in the console, and who had it save."""
    said = steering.notebook.complaints
    said[:] = [it for it in said if "No space left on device" not in it]


class LastAnswer:
    """Keeps back the last request of the first save to come, made once the file is written."""

    def __init__(self, steering: Steering, name: str) -> None:
        self._held: Route | None = None
        self._written = False
        self._page = steering.page
        self._page.route(f"**/api/contents/{name}.ipynb?*", self._pass)

    def _pass(self, route: Route) -> None:
        if route.request.method == "PUT":
            self._written = True
        elif self._written and self._held is None:
            self._held = route
            return
        route.continue_()

    def save(self, steering: Steering) -> None:
        """Begin a save, as JupyterLab does by itself now and then, and wait for that request."""
        # Whoever evaluated a promise would be waiting for it.
        self._page.evaluate(f"() => {{ window.saved = {CONTEXT}.save() }}")
        steering.notebook.wait_until(lambda: self._held)

    def give(self) -> None:
        """Have the save come to its end."""
        assert self._held is not None
        self._held.continue_()
        self._page.evaluate("window.saved")


def edited_since(steer: Steer, name: str) -> Steering:
    """A page whose first cell was edited after its checkpoint `one`, and not saved."""
    steering = steer(name, "x = 1", "%checkpoint one")
    for number in range(2):
        steering.notebook.run_cell(number)
    steering.notebook.write_cell(0, "x = 'edited since'")
    assert steering.is_dirty()
    return steering


def test_edits_are_saved_first_where_that_is_chosen_and_then_the_text_is_put_back(
    steer: Steer, lab: JupyterServer
) -> None:
    steering = edited_since(steer, "saved-first")
    steering.offered("one", "Restore text…").click()
    expect(steering.dialog).to_contain_text("x = 'edited since' → x = 1")
    steering.answer("Save first, then restore")
    steering.notebook.wait_notified(
        "Text of one: 1 cell put back. File > Revert Notebook to Checkpoint has what was there."
    )
    expect(steering.notebook.cell(0).locator(".cm-content")).to_have_text("x = 1")
    assert sources(lab.folder / "saved-first.ipynb")[0] == "x = 'edited since'"
    assert steering.is_dirty()
    # As JupyterLab does by itself after two minutes.
    steering.page.evaluate(f"{CONTEXT}.save()")
    assert sources(lab.folder / "saved-first.ipynb")[0] == "x = 1"
    kept = lab.folder / ".ipynb_checkpoints" / "saved-first-checkpoint.ipynb"
    assert sources(kept)[0] == "x = 'edited since'"


def test_an_edit_that_comes_while_the_notebook_is_being_saved_is_known_to_be_unsaved(
    steer: Steer, lab: JupyterServer
) -> None:
    steering = edited_since(steer, "while-saving")
    last_answer = LastAnswer(steering, "while-saving")
    last_answer.save(steering)
    steering.notebook.write_cell(0, "x = 'edited meanwhile'")
    last_answer.give()
    assert sources(lab.folder / "while-saving.ipynb")[0] == "x = 'edited since'"
    assert steering.is_dirty()
    steering.offered("one", "Restore text…").click()
    steering.answer("Save first, then restore")
    steering.notebook.wait_notified("Text of one: 1 cell put back.")
    assert sources(lab.folder / "while-saving.ipynb")[0] == "x = 'edited meanwhile'"


def test_a_save_under_way_is_waited_for_before_edits_are_saved_first(steer: Steer) -> None:
    steering = edited_since(steer, "two-saves")
    last_answer = LastAnswer(steering, "two-saves")
    last_answer.save(steering)
    steering.offered("one", "Restore text…").click()
    steering.answer("Save first, then restore")
    expect(steering.dialog).to_have_count(0)
    expect(steering.notebook.cell(0).locator(".cm-content")).to_have_text("x = 'edited since'")
    last_answer.give()
    steering.notebook.wait_notified("Text of one: 1 cell put back.")
    assert steering.is_dirty()


def test_text_that_was_put_back_while_the_notebook_was_being_saved_is_known_to_be_unsaved(
    steer: Steer,
) -> None:
    steering = edited_since(steer, "put-back")
    last_answer = LastAnswer(steering, "put-back")
    last_answer.save(steering)
    steering.offered("one", "Restore text…").click()
    steering.answer("Restore")
    steering.notebook.wait_notified("Text of one: 1 cell put back.")
    last_answer.give()
    assert steering.is_dirty()


def test_nothing_is_put_back_where_the_notebook_cannot_be_saved_first(steer: Steer) -> None:
    steering = edited_since(steer, "not-saved")
    steering.page.route("**/api/contents/not-saved.ipynb*", refuse_to_save)
    steering.offered("one", "Restore text…").click()
    steering.answer("Save first, then restore")
    expect(steering.dialog).to_contain_text("File Save Error")
    steering.dialog.get_by_role("button").last.click()
    steering.notebook.wait_notified("Nothing was put back: not-saved.ipynb is not saved")
    expect(steering.notebook.cell(0).locator(".cm-content")).to_have_text("x = 'edited since'")
    forget_refusals(steering)


def test_edits_stay_as_they_are_where_the_question_is_cancelled(steer: Steer) -> None:
    steering = edited_since(steer, "kept-edits")
    steering.offered("one", "Restore text…").click()
    expect(steering.dialog).to_contain_text("x = 'edited since' → x = 1")
    steering.answer("Cancel")
    expect(steering.dialog).to_have_count(0)
    expect(steering.notebook.cell(0).locator(".cm-content")).to_have_text("x = 'edited since'")


def test_a_branch_is_opened_without_edits_that_cannot_be_saved_once_that_is_agreed_to(
    steer: Steer, lab: JupyterServer
) -> None:
    steering = steer("unsaved", "x = 1", "%fork 1 --names ridge")
    for number in range(2):
        steering.notebook.run_cell(number)
    steering.notebook.save(lab.folder / "unsaved.ipynb")
    steering.notebook.write_cell(0, "x = 'edited since'")
    steering.page.route("**/api/contents/unsaved.ipynb*", refuse_to_save)
    for answer in ("Cancel", "Open without them"):
        steering.offered("ridge", "Open as notebook").click()
        expect(steering.dialog).to_contain_text("File Save Error")
        steering.dialog.get_by_role("button").last.click()
        expect(steering.dialog).to_contain_text("Open ridge without the latest edits?")
        steering.notebook.picture("unsaved-opening")
        steering.answer(answer)
        expect(steering.dialog).to_have_count(0)
    steering.notebook.wait_until(lambda: steering.page.evaluate(IN_FRONT) == "unsaved-ridge.ipynb")
    # A kernel that is being started cannot be ended.
    steering.notebook.wait_until(lambda: steering.page.evaluate(STATUS) == "idle")
    assert sources(lab.folder / "unsaved-ridge.ipynb")[0] == "x = 1"
    assert sources(lab.folder / "unsaved.ipynb")[0] == "x = 1"
    forget_refusals(steering)

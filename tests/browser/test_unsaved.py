"""What is not saved is never written over or left out without being asked about."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect
from tests.browser.conftest import Steer
from tests.support.jupyter_server import JupyterServer
from tests.support.steering import Steering

pytestmark = [pytest.mark.vm, pytest.mark.browser]

IN_FRONT = "window.jupyterapp.shell.currentWidget.context.path"


def sources(file: Path) -> list[str]:
    """The cells of a notebook's file."""
    return ["".join(cell["source"]) for cell in json.loads(file.read_text())["cells"]]


def refuse_to_save(route: Route) -> None:
    """As a server whose disk is full."""
    if route.request.method == "PUT":
        route.fulfill(status=500, json={"message": "No space left on device"})
    else:
        route.continue_()


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
    expect(steering.told.last).to_contain_text("Text of one: 1 cell put back.")
    expect(steering.notebook.cell(0).locator(".cm-content")).to_have_text("x = 1")
    assert sources(lab.folder / "saved-first.ipynb")[0] == "x = 'edited since'"
    assert steering.is_dirty()


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
    assert sources(lab.folder / "unsaved-ridge.ipynb")[0] == "x = 1"
    assert sources(lab.folder / "unsaved.ipynb")[0] == "x = 1"
    # JupyterLab notes each refusal, and who had it save.
    said = steering.notebook.complaints
    said[:] = [it for it in said if "No space left on device" not in it]

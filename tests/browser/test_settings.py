"""Each setting of ours is found in JupyterLab's settings, and does what it says at once."""

import re
from collections.abc import Generator

import pytest
from playwright.sync_api import Browser, Locator, Response, expect
from tests.support.jupyter_server import JupyterServer
from tests.support.steering import Steering
from tests.support.web_page import NotebookPage, pictures, write_notebook

pytestmark = [pytest.mark.vm, pytest.mark.browser]

CELLS = ("x = 1", "%checkpoint one", "x = 2", "%rollback one --no-safety")
# What a command has made is more than can be brought here.
EXECUTE = "async ([command, args]) => { await window.jupyterapp.commands.execute(command, args); }"


@pytest.fixture(scope="module")
def steering(
    lab: JupyterServer, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Steering]:
    """On a notebook that has gone back once."""
    write_notebook(lab.folder / "settings.ipynb", *CELLS)
    notebook = NotebookPage(browser.new_page(), pictures(tmp_path_factory.mktemp("pictures")))
    notebook.open(lab, "lab/workspaces/settings/tree/settings.ipynb")
    steering = Steering(notebook)
    steering.show_panel()
    for number in range(len(CELLS)):
        notebook.run_cell(number)
    yield steering
    assert notebook.complaints == []
    notebook.page.close()


def setting(steering: Steering, name: str) -> Locator:
    """The field of a setting, in JupyterLab's editor."""
    steering.page.evaluate(EXECUTE, ["settingeditor:open", {"query": "branchpoint"}])
    return steering.page.locator(f".jp-SettingsPanel [id$='branchpoint:plugin_{name}']")


def is_stored(answer: Response) -> bool:
    """Whether a setting of ours has been stored; from then on it counts."""
    return answer.request.method == "PUT" and "/lab/api/settings/branchpoint" in answer.url


def back(steering: Steering) -> None:
    """To the notebook."""
    steering.page.evaluate(EXECUTE, ["docmanager:open", {"path": "settings.ipynb"}])


def test_cells_of_a_future_that_was_left_are_dimmed_or_not(steering: Steering) -> None:
    left = steering.notebook.cell(2)
    expect(left).to_have_class(re.compile("bp-mod-left"))
    setting(steering, "dimLeftCells").uncheck()
    steering.notebook.picture("settings")
    back(steering)
    expect(left).not_to_have_class(re.compile("bp-mod-left"))
    setting(steering, "dimLeftCells").check()
    back(steering)
    expect(left).to_have_class(re.compile("bp-mod-left"))


def test_the_status_bar_shows_memory_or_not(steering: Steering) -> None:
    expect(steering.state).to_have_text(re.compile(r"^main · [\d.]+ [kMG]B · idle$"))
    setting(steering, "memoryInStatusBar").uncheck()
    back(steering)
    expect(steering.state).to_have_text("main · idle")
    setting(steering, "memoryInStatusBar").check()
    back(steering)
    expect(steering.state).to_have_text(re.compile(r"^main · [\d.]+ [kMG]B · idle$"))


def test_the_panel_is_on_the_side_that_was_chosen(steering: Steering) -> None:
    setting(steering, "panelSide").select_option("left")
    expect(steering.page.locator("#jp-left-stack #branchpoint-panel")).to_be_attached()
    setting(steering, "panelSide").select_option("right")
    expect(steering.page.locator("#jp-right-stack #branchpoint-panel")).to_be_attached()
    back(steering)
    expect(steering.row("one")).to_be_visible()


def test_rows_are_as_high_as_was_chosen(steering: Steering) -> None:
    heights: dict[str, float] = {}
    for size in ("compact", "normal", "large", "normal"):
        setting(steering, "rowSize").select_option(size)
        back(steering)
        expect(steering.panel.locator(f".bp-listing[data-zoom='{size}']")).to_be_visible()
        box = steering.row("one").bounding_box()
        assert box is not None
        heights[size] = box["height"]
    assert heights["compact"] < heights["normal"] < heights["large"]


def test_the_size_of_rows_that_was_chosen_in_the_tree_stays_when_something_else_is_set(
    steering: Steering,
) -> None:
    listing = steering.panel.locator(".bp-listing")
    before = listing.get_attribute("data-zoom")
    steering.panel.get_by_role("button", name="Size of rows").click()
    expect(listing).not_to_have_attribute("data-zoom", str(before))
    chosen = str(listing.get_attribute("data-zoom"))
    setting(steering, "memoryInStatusBar").uncheck()
    back(steering)
    expect(steering.state).to_have_text("main · idle")
    expect(listing).to_have_attribute("data-zoom", chosen)
    setting(steering, "memoryInStatusBar").check()
    back(steering)
    expect(steering.state).to_have_text(re.compile(r"^main · [\d.]+ [kMG]B · idle$"))


def test_the_text_is_offered_to_be_restored_or_not(steering: Steering) -> None:
    offer = steering.page.get_by_role("button", name="Restore its text")
    steering.notebook.write_cell(0, "x = 3")
    for wanted in (False, True):
        with steering.page.expect_response(is_stored):
            setting(steering, "offerToRestoreText").set_checked(wanted)
        back(steering)
        steering.notebook.run_cell(0)
        steering.toolbar("Roll back").click()
        steering.answer("Roll back")
        steering.notebook.wait_notified("Back at")
        expect(offer).to_have_count(int(wanted))

"""The lineage view in a page that is loaded after another kernel has come: it is there at once."""

from pathlib import Path

import pytest
from tests.support.front_end import in_a_loop, open_notebook
from tests.support.lineage_page import LineagePage, comm_openings

from branchpoint_kernel import lineage_widget

MODEL = "branchpoint-lineage-s-fake"


async def show_it(folder: Path) -> None:
    """A kernel before, in which a cell has shown it."""
    async with open_notebook(folder) as notebook:
        assert (await LineagePage.open(notebook)).model == MODEL


@in_a_loop
async def test_a_page_that_asks_for_states_is_told_of_what_an_earlier_kernel_has_shown(
    tmp_path: Path,
) -> None:
    await show_it(tmp_path / "s")
    async with open_notebook(tmp_path / "s") as notebook:
        page = LineagePage(notebook, MODEL)
        assert page.labels(await page.view()) == ["base"]
        await notebook.run("%checkpoint one")
        await page.until(lambda view: "one" in page.labels(view))
        assert "done" in await page.act("preview", target="one")


@in_a_loop
async def test_a_page_that_asks_for_comms_instead_finds_them(tmp_path: Path) -> None:
    await show_it(tmp_path / "s")
    async with open_notebook(tmp_path / "s") as notebook:
        page = LineagePage(notebook, MODEL)
        assert {MODEL, f"{MODEL}-layout"} == set(await page.comms())
        [told] = await page.told(page.say({"method": "request_state"}))
        assert page.labels(page.state_in(told)["view"]) == ["base"]


@in_a_loop
async def test_widgets_of_the_kernel_inside_are_told_of_beside_it(tmp_path: Path) -> None:
    await show_it(tmp_path / "s")
    async with open_notebook(tmp_path / "s") as notebook:
        await notebook.run("import ipywidgets\nslider = ipywidgets.IntSlider(value=3)")
        states = (await LineagePage(notebook, MODEL).ask_states())["states"]
        assert {"AnyModel", "IntSliderModel"} <= {it["model_name"] for it in states.values()}


@in_a_loop
async def test_a_session_that_never_showed_it_opens_nothing_for_a_page_that_asks(
    tmp_path: Path,
) -> None:
    async with open_notebook(tmp_path / "s") as notebook:
        await notebook.run("%checkpoint one")
    async with open_notebook(tmp_path / "s") as notebook:
        assert await LineagePage(notebook).comms() == {}
        assert comm_openings(notebook.seen) == []


@in_a_loop
async def test_where_it_is_not_built_any_more_a_page_is_told_of_the_other_widgets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await show_it(tmp_path / "s")
    monkeypatch.setattr(lineage_widget, "FRONT_END", lineage_widget.FRONT_END / "nowhere")
    async with open_notebook(tmp_path / "s") as notebook:
        await notebook.run("import ipywidgets\nslider = ipywidgets.IntSlider(value=3)")
        states = (await LineagePage(notebook).ask_states())["states"]
        assert "IntSliderModel" in {it["model_name"] for it in states.values()}

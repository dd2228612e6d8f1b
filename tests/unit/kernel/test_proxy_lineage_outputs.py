"""What a cell with `%lineage` shows: the widget, a picture, tables; what it does without one."""

import pytest
from tests.support.front_end import in_a_loop, open_notebook
from tests.support.lineage_page import WIDGET_VIEW, LineagePage, comm_openings, data_of

from branchpoint_kernel import lineage_widget

NOT_DRAWN = "the picture could not be drawn; the log of this kernel says why"


def cannot_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no picture of a lineage be drawn from here on."""

    def draw(*_: object, **__: object) -> object:
        raise RuntimeError("no memory for it")

    monkeypatch.setattr("branchpoint_vmruntime.lineage.picture.draw", draw)


@in_a_loop
async def test_a_cell_shows_the_widget_and_below_it_a_picture_and_tables() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint one")
        widget, picture, tables = data_of(await notebook.run("%lineage", allow_stdin=True))
        assert set(widget) == {"text/plain", WIDGET_VIEW}
        assert widget["text/plain"].startswith("Lineage of fake: 2 checkpoints, 1 branch")
        assert set(picture) == {"text/plain", "image/svg+xml", "image/png"}
        assert "<th scope" in tables["text/html"]
        assert "one" in tables["text/plain"]


@in_a_loop
async def test_nobody_who_has_the_widget_waits_for_the_picture_of_hundreds_of_checkpoints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("branchpoint_kernel.lineage_host.DRAWN_AT_ONCE", 0)
    async with open_notebook() as notebook:
        _, place, _ = data_of(await notebook.run("%lineage", allow_stdin=True))
        assert set(place) == {"text/plain"}
        picture = (await LineagePage(notebook).hear("update_display_data"))["data"]
        assert set(picture) == {"text/plain", "image/svg+xml", "image/png"}


@in_a_loop
async def test_a_picture_that_cannot_be_drawn_leaves_the_tables_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cannot_be_drawn(monkeypatch)
    async with open_notebook() as notebook:
        answer = await notebook.run("%lineage", allow_stdin=False)
        said, tables = data_of(answer)
        assert answer.status == "ok"
        assert said == {"text/plain": NOT_DRAWN}
        assert "<th scope" in tables["text/html"]


@in_a_loop
async def test_a_picture_that_is_waited_for_in_vain_is_said_not_to_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cannot_be_drawn(monkeypatch)
    monkeypatch.setattr("branchpoint_kernel.lineage_host.DRAWN_AT_ONCE", 0)
    async with open_notebook() as notebook:
        await notebook.run("%lineage", allow_stdin=True)
        said = (await LineagePage(notebook).hear("update_display_data"))["data"]
        assert said == {"text/plain": NOT_DRAWN}


@in_a_loop
async def test_a_cell_that_nobody_sits_before_shows_the_picture_and_tables_alone() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run("%lineage", allow_stdin=False)
        picture, tables = data_of(answer)
        assert set(picture) == {"text/plain", "image/svg+xml", "image/png"}
        assert "text/html" in tables
        assert not comm_openings(notebook.seen)


@in_a_loop
async def test_where_the_view_was_not_built_a_cell_says_how_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lineage_widget, "FRONT_END", lineage_widget.FRONT_END / "nowhere")
    async with open_notebook() as notebook:
        said, picture, tables = data_of(await notebook.run("%lineage", allow_stdin=True))
        assert "make venv" in said["text/plain"]
        assert "image/png" in picture
        assert "text/html" in tables

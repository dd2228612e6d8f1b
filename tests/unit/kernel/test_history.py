"""What is remembered of the cells that were run."""

from tests.support.fake_session import FakeSession
from tests.support.front_end import in_a_loop

from branchpoint_kernel.history import SOURCE_LIMIT, History, cell_of
from branchpoint_vmruntime.lineage import Cell, Moment, OpenRequest


def a_cell(count: int, source: str = "x = 1") -> Cell:
    return Cell(id=f"cell-{count}", count=count, source=source)


def test_a_cell_bears_the_id_of_its_place_in_the_document() -> None:
    assert cell_of({"code": "x"}, {"cellId": "a1"}, 3) == Cell(id="a1", count=3, source="x")
    assert cell_of({"code": "x"}, {}, 3) == Cell(id="", count=3, source="x")


def test_what_leaves_no_trace_in_the_kernels_history_is_no_cell() -> None:
    assert cell_of({"code": "x", "silent": True}, {}, 3) is None
    assert cell_of({"code": "x", "store_history": False}, {}, 3) is None


def test_a_long_source_is_kept_in_part_and_says_so() -> None:
    cell = cell_of({"code": "#" * (SOURCE_LIMIT + 1)}, {}, 1)
    assert cell is not None
    assert len(cell.source) == SOURCE_LIMIT
    assert "not kept" in cell.source


@in_a_loop
async def test_a_moment_holds_the_cells_run_since_the_last_checkpoint() -> None:
    async with FakeSession() as session:
        history = History(session)
        history.note_cell("main", a_cell(1))
        history.note_cell("main", a_cell(2))
        moment = history.moment("main")
        assert moment.done == (a_cell(1), a_cell(2))
        assert moment.count == 2
        assert moment.cell == a_cell(2)
        await session.checkpoint("a")
        assert history.done("main") == ()
        history.note_cell("main", a_cell(3))
        assert history.moment("main").done == (a_cell(3),)


@in_a_loop
async def test_the_cell_that_asks_is_the_moments_own() -> None:
    async with FakeSession() as session:
        history = History(session)
        history.note_cell("main", a_cell(1))
        asking, waiting = a_cell(2), OpenRequest(id="m1", cell=a_cell(2))
        moment = history.moment("main", cell=asking, open=(waiting,))
        assert (moment.cell, moment.count, moment.done) == (asking, 1, (a_cell(1),))
        assert moment.open == (waiting,)


@in_a_loop
async def test_going_back_to_where_the_branch_stood_starts_its_list_anew() -> None:
    async with FakeSession() as session:
        history = History(session)
        await session.checkpoint("a")
        history.note_cell("main", a_cell(1))
        await session.rollback("a", safety=False)
        assert history.done("main") == ()


@in_a_loop
async def test_each_branch_has_a_list_of_its_own() -> None:
    async with FakeSession() as session:
        history = History(session)
        await session.fork(1, names=["other"])
        history.note_cell("other", a_cell(7))
        assert history.done("main") == ()
        assert history.done("other") == (a_cell(7),)


@in_a_loop
async def test_what_was_run_is_known_after_a_rollback_that_saved_nothing() -> None:
    async with FakeSession() as session:
        history = History(session)
        await session.checkpoint("a")
        history.note_cell("main", a_cell(1, "x = 'a long source'"))
        await session.rollback("a", safety=False)
        history.note_cell("main", a_cell(2))
        assert [(it.id, it.count) for it in history.undone()] == [("cell-1", 1), ("cell-2", 2)]
        assert history.done("main") == (a_cell(2),)


@in_a_loop
async def test_a_cell_that_ends_while_its_branch_is_being_saved_stays_on_its_line() -> None:
    async with FakeSession() as session:
        history = History(session)
        history.note_cell("main", a_cell(1))

        async def witness(branch: str) -> Moment:
            moment = history.moment(branch)
            # The machine runs on while what was saved is still being kept.
            history.note_cell(branch, a_cell(2))
            return moment

        session.witness = witness
        saved = await session.checkpoint("a")
        assert saved.moment.done == (a_cell(1),)
        assert history.done("main") == (a_cell(2),)


@in_a_loop
async def test_what_a_moment_that_nobody_could_tell_held_is_not_told_as_run_since() -> None:
    async with FakeSession() as session:
        history = History(session)
        history.note_cell("main", a_cell(1))
        await session.checkpoint("a")
        assert history.done("main") == ()

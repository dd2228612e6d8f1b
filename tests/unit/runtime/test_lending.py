"""A branch that is lent: saved, another session's until that is closed, then here again."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_workshop import FakeWorkshop, Office, office, snapshot
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime.errors import (
    NameTakenError,
    SessionBusyError,
    StorageError,
    UsageError,
)
from branchpoint_vmruntime.lending import LOOK_EVERY_S
from branchpoint_vmruntime.lineage import BranchName, BranchState, CheckpointKind, SessionRecord
from branchpoint_vmruntime.loan import Loan

KEY = "/notes/demo-ridge.ipynb"


class Neighbours:
    """Implements `Borrowers`: those are open that a test says."""

    def __init__(self) -> None:
        self.open: set[str] = set()
        # Those of them that nobody has come for yet.
        self.awaited: set[str] = set()
        self.error: OSError | None = None

    def expect(self, lender: str, borrower: str) -> None:
        """It is open from now on."""
        self.open.add(borrower)

    @contextmanager
    def gone(self, borrower: str, key: str, *, asked: bool = False) -> Generator[bool]:
        """Whether the test has closed it."""
        if self.error is not None:
            raise self.error
        yield borrower not in self.open or (asked and borrower in self.awaited)


class Lender:
    """A session with a live branch `ridge` beside `main`, and those it lends to."""

    def __init__(self, it: Office, folder: Path, neighbours: Neighbours) -> None:
        self.it, self.session, self.neighbours = it, it.session, neighbours
        self._folder = folder

    async def lend(self) -> SessionRecord:
        """Lend ridge."""
        return await self.session.lend("ridge", KEY)

    @property
    def ridge(self) -> BranchState:
        """What has become of it."""
        return self.session.branch("ridge").state

    @asynccontextmanager
    async def borrower(self, to: SessionRecord) -> AsyncGenerator[Office]:
        """That session, open; for the lender until the end, whatever becomes of it here."""
        loan = Loan(branch=BranchName("ridge"), index=1, lender="notebook", lent=True)
        there = self.it.workshop
        async with office(self._folder, there, session=to, loan=loan) as opened:
            yield opened
        self.neighbours.open.discard(to.id)


@asynccontextmanager
async def lender(folder: Path) -> AsyncGenerator[Lender]:
    """One that has forked ridge."""
    neighbours = Neighbours()
    async with office(folder, FakeWorkshop(), borrowers=neighbours) as it:
        await it.session.fork(1, names=["ridge"])
        yield Lender(it, folder, neighbours)


@in_a_loop
async def test_a_live_branch_is_saved_and_another_session_starts_there(tmp_path: Path) -> None:
    async with lender(tmp_path) as here:
        to = await here.lend()
        record = here.session.branch("ridge").record
        assert (record.state, record.lent_to) == (BranchState.LENT, to.id)
        assert [it.identity.branch for it in here.it.workshop.living()] == ["main"]
        saved = here.session.find(record.head)
        assert (saved.kind, saved.branch) == (CheckpointKind.PAUSED, "ridge")
        assert here.it.journal.session_by_key(KEY) == to
        assert to.start == saved.id


@in_a_loop
async def test_the_other_session_begins_as_that_branch_with_what_it_has_behind_it(
    tmp_path: Path,
) -> None:
    async with lender(tmp_path) as here:
        before = await here.session.checkpoint("before", branch="ridge")
        to = await here.lend()
        async with here.borrower(to) as there:
            ridge = there.session.current
            assert (ridge.name, ridge.index, ridge.record.head) == ("ridge", 1, to.start)
            assert there.machine("ridge").identity.reason == "reopen"
            assert there.workshop.reseeded["ridge"] is False
            assert there.session.find("before").id == before.id


Deed = Callable[[Office], Coroutine[Any, Any, object]]

WITH_A_LENT_ONE: dict[str, Deed] = {
    "switch": lambda it: it.session.switch("ridge"),
    "keep": lambda it: it.session.keep("ridge"),
    "drop": lambda it: it.session.drop(["ridge"]),
    "pause": lambda it: it.session.pause("ridge"),
    "resume": lambda it: it.session.resume("ridge"),
    "rollback": lambda it: it.session.rollback(branch="ridge"),
    "fork": lambda it: it.session.fork(1, branch="ridge"),
    "checkpoint": lambda it: it.session.checkpoint("mine", branch="ridge"),
    "awake": lambda it: it.session.awake("ridge"),
    "lend": lambda it: it.session.lend("ridge", "/notes/another.ipynb"),
}


@pytest.mark.parametrize("name", WITH_A_LENT_ONE)
def test_what_is_done_with_a_lent_branch_is_refused_and_names_who_has_it(
    name: str, tmp_path: Path
) -> None:
    @in_a_loop
    async def refused() -> None:
        async with lender(tmp_path) as here:
            await here.lend()
            before = snapshot(here.it)
            with pytest.raises(UsageError, match="open as 'demo-ridge"):
                await WITH_A_LENT_ONE[name](here.it)
            assert snapshot(here.it) == before

    refused()


@pytest.mark.parametrize("name", WITH_A_LENT_ONE)
def test_one_that_nobody_has_come_for_yet_is_here_again_as_soon_as_it_is_asked_for(
    name: str, tmp_path: Path
) -> None:
    @in_a_loop
    async def taken_back() -> None:
        async with lender(tmp_path) as here:
            to = await here.lend()
            here.neighbours.awaited.add(to.id)
            await here.session.checkpoint()
            assert here.ridge is BranchState.LENT
            # What is paused has nothing to be paused or saved; all else is done.
            with suppress(UsageError):
                await WITH_A_LENT_ONE[name](here.it)
            assert here.session.branch("ridge").record.lent_to != to.id
            assert here.session.came_back == [("ridge", KEY)]

    taken_back()


@in_a_loop
async def test_keep_leaves_it_alone(tmp_path: Path) -> None:
    async with lender(tmp_path) as here:
        await here.lend()
        report = await here.session.keep("main")
        assert report.parked == ()
        assert here.ridge is BranchState.LENT


@in_a_loop
async def test_the_current_branch_is_not_lent(tmp_path: Path) -> None:
    async with lender(tmp_path) as here:
        before = snapshot(here.it)
        with pytest.raises(UsageError, match="'main' is the current branch"):
            await here.session.lend("main", KEY)
        assert snapshot(here.it) == before


@in_a_loop
async def test_a_branch_is_not_lent_while_a_cell_runs_on_it(tmp_path: Path) -> None:
    async with lender(tmp_path) as here:
        here.session.executes = lambda branch: branch == "ridge"
        before = snapshot(here.it)
        with pytest.raises(UsageError, match="a cell runs in branch 'ridge'"):
            await here.lend()
        assert snapshot(here.it) == before


@in_a_loop
async def test_a_dropped_branch_is_not_lent(tmp_path: Path) -> None:
    async with lender(tmp_path) as here:
        await here.session.drop(["ridge"])
        with pytest.raises(UsageError, match="'ridge' was dropped"):
            await here.lend()


@in_a_loop
async def test_a_key_with_a_tree_of_its_own_is_refused_before_anything_is_saved(
    tmp_path: Path,
) -> None:
    async with lender(tmp_path) as here:
        await here.session.fork(1, names=["boost"])
        await here.lend()
        before = snapshot(here.it)
        with pytest.raises(NameTakenError, match="of its own"):
            await here.session.lend("boost", KEY)
        assert snapshot(here.it) == before


@in_a_loop
async def test_a_branch_that_cannot_be_saved_runs_on_here(tmp_path: Path) -> None:
    async with lender(tmp_path) as here:
        here.it.workshop.publish_error = UsageError("the disk is full")
        with pytest.raises(UsageError):
            await here.lend()
        assert here.it.machine("ridge").runs
        assert here.it.journal.session_by_key(KEY) is None


@in_a_loop
async def test_it_is_here_again_where_the_other_notebook_saved_it(tmp_path: Path) -> None:
    async with lender(tmp_path) as here:
        async with here.borrower(await here.lend()) as there:
            there_made = await there.session.checkpoint("there")
            last = (await there.session.pause()).checkpoint
        await here.session.checkpoint()
        record = here.session.branch("ridge").record
        assert (record.state, record.head) == (BranchState.PAUSED, last.id)
        assert record.lent_to is None
        assert there_made in here.session.path(here.session.find(last.id))
        await here.session.switch("ridge")
        assert here.it.machine("ridge").woken_from == last.id


@in_a_loop
async def test_what_the_other_notebook_did_not_save_is_lost_and_not_passed_over(
    tmp_path: Path,
) -> None:
    async with lender(tmp_path) as here:
        async with here.borrower(await here.lend()) as there:
            last = await there.session.checkpoint("there")
        with pytest.raises(UsageError, match="ended without being saved"):
            await here.session.awake("ridge")
        record = here.session.branch("ridge").record
        assert (record.state, record.head) == (BranchState.LOST, last.id)


@in_a_loop
async def test_the_branch_the_other_notebook_was_on_at_last_is_what_comes_back(
    tmp_path: Path,
) -> None:
    async with lender(tmp_path) as here:
        async with here.borrower(await here.lend()) as there:
            await there.session.fork(1, names=["elsewhere"])
            await there.session.switch("elsewhere")
            last = (await there.session.pause()).checkpoint
        await here.session.checkpoint()
        assert here.session.branch("ridge").record.head == last.id


@in_a_loop
async def test_nobody_has_to_ask_for_it(tmp_path: Path) -> None:
    async with lender(tmp_path) as here:
        async with here.borrower(await here.lend()) as there:
            await there.session.pause()
        seen = here.session.changes.version
        async with asyncio.timeout(120):
            while here.ridge is BranchState.LENT:
                await here.session.changes.wait(seen, timeout_s=120)
                seen = here.session.changes.version
        assert here.ridge is BranchState.PAUSED


@in_a_loop
async def test_what_cannot_be_taken_back_keeps_nobody_from_anything_and_is_taken_back_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with lender(tmp_path) as here:
        async with here.borrower(await here.lend()) as there:
            last = (await there.session.pause()).checkpoint
        here.it.journal.full = frozenset({"branches"})
        await here.session.pin(last)
        await here.session.pin(last, pinned=False)
        assert here.ridge is BranchState.LENT
        with pytest.raises(StorageError, match="cannot be taken back from its notebook yet"):
            await here.session.resume("ridge")
        assert "cannot be taken back yet: the disk is full" in caplog.text
        assert len([it for it in caplog.records if "taken back" in it.message]) == 1
        here.it.journal.full = frozenset()
        await here.session.pin(last)
        assert here.session.branch("ridge").record.head == last.id


@in_a_loop
async def test_one_that_cannot_be_looked_for_does_not_end_the_looking(tmp_path: Path) -> None:
    async with lender(tmp_path) as here:
        to = await here.lend()
        here.neighbours.open.clear()
        here.neighbours.error = FileNotFoundError("layers")
        # Longer than it looks by itself.
        await asyncio.sleep(2 * LOOK_EVERY_S)
        assert here.ridge is BranchState.LENT
        here.neighbours.error = None
        seen = here.session.changes.version
        async with asyncio.timeout(120):
            while here.ridge is BranchState.LENT:
                seen = await here.session.changes.wait(seen, timeout_s=120)
        assert here.session.branch("ridge").record.head == to.start


@in_a_loop
async def test_one_whose_notebook_was_never_opened_is_here_as_it_was(tmp_path: Path) -> None:
    async with lender(tmp_path) as here:
        to = await here.lend()
        here.neighbours.open.clear()
        await here.session.resume("ridge")
        assert here.session.branch("ridge").record.head == to.start


@in_a_loop
async def test_one_whose_notebook_was_removed_is_here_as_it_was_lent(tmp_path: Path) -> None:
    async with lender(tmp_path) as here:
        to = await here.lend()
        here.it.journal.put_session(replace(to, start=None))
        here.it.journal.remove_session(to.id)
        await here.session.resume("ridge")
        assert here.session.branch("ridge").record.head == to.start


@in_a_loop
async def test_a_later_owner_of_the_lender_finds_it_given_back(tmp_path: Path) -> None:
    async with lender(tmp_path) as here:
        await here.session.fork(1, names=["boost"])
        to = await here.lend()
        workshop = here.it.workshop
    async with office(tmp_path, workshop, borrowers=Neighbours(), fresh=False) as it:
        record = it.session.branch("ridge").record
        assert (record.state, record.head) == (BranchState.PAUSED, to.start)


@in_a_loop
async def test_the_notebook_that_had_it_is_lent_it_again_if_it_asks(tmp_path: Path) -> None:
    async with lender(tmp_path) as here:
        to = await here.lend()
        async with here.borrower(to) as there:
            last = (await there.session.pause()).checkpoint
        await here.session.checkpoint()
        again = await here.session.lend("ridge", KEY, again=True)
        assert (again.id, again.start) == (to.id, last.id)
        assert here.ridge is BranchState.LENT


@in_a_loop
async def test_it_is_not_if_the_branch_has_moved_on_here(tmp_path: Path) -> None:
    async with lender(tmp_path) as here:
        async with here.borrower(await here.lend()) as there:
            await there.session.pause()
        await here.session.resume("ridge")
        await here.session.checkpoint("moved", branch="ridge")
        with pytest.raises(NameTakenError):
            await here.session.lend("ridge", KEY, again=True)


@in_a_loop
async def test_one_that_has_a_machine_here_keeps_it_if_the_notebook_asks(tmp_path: Path) -> None:
    async with lender(tmp_path) as here:
        async with here.borrower(await here.lend()) as there:
            await there.session.pause()
        await here.session.resume("ridge")
        with pytest.raises(UsageError, match="gone on here"):
            await here.session.lend("ridge", KEY, again=True)
        assert here.it.machine("ridge").runs


@in_a_loop
async def test_a_notebook_that_is_open_is_lent_nothing_that_it_does_not_ask_for(
    tmp_path: Path,
) -> None:
    async with lender(tmp_path) as here:
        to = await here.lend()
        here.neighbours.open.clear()
        await here.session.checkpoint()
        here.neighbours.open.add(to.id)
        with pytest.raises(SessionBusyError, match="open already"):
            await here.lend()
        assert here.ridge is BranchState.PAUSED


@in_a_loop
async def test_a_session_that_continues_a_branch_has_no_image_of_its_own(tmp_path: Path) -> None:
    async with lender(tmp_path) as here, here.borrower(await here.lend()) as there:
        for wanted in (there.session.image.bake(["tomli"]), there.session.image.reset()):
            with pytest.raises(UsageError, match="continues branch 'ridge'"):
                await wanted

"""A notebook that continues a branch saves it at its end; one that has lent some says so."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

from tests.support.fake_session import FakeSession
from tests.support.front_end import Notebook, in_a_loop, open_notebook, open_with

from branchpoint_kernel.relay import Opened
from branchpoint_vmruntime.image.progress import Progress
from branchpoint_vmruntime.lineage import BranchName, BranchState, SessionId
from branchpoint_vmruntime.loan import Loan
from branchpoint_vmruntime.reports import PauseReport

LOAN = Loan(branch=BranchName("main"), index=0, lender="/notes/demo.ipynb", lent=True)


class PausedSession(FakeSession):
    """Notes what is paused, and whether a cell was said to run."""

    def __init__(self, loan: Loan | None) -> None:
        super().__init__()
        self.loan = loan
        self.paused: list[str] = []

    async def pause(self, name: str | None = None) -> PauseReport:
        """Note it."""
        report = await super().pause(name)
        self.paused.append(report.branch.name)
        return report


@asynccontextmanager
async def continuing(session: PausedSession) -> AsyncGenerator[Notebook]:
    """A notebook whose session continues a branch, or does not."""

    @asynccontextmanager
    async def opening(_progress: Progress) -> AsyncGenerator[Opened]:
        async with session:
            yield Opened(session, "in a machine that is made up")

    async with open_with(opening, session) as notebook:
        await notebook.run("", silent=True)
        yield notebook


@in_a_loop
async def test_a_branch_that_is_continued_is_saved_when_the_kernel_is_shut_down() -> None:
    session = PausedSession(LOAN)
    async with continuing(session) as notebook:
        await notebook.run("x = 1")
        assert session.paused == []
    assert session.paused == ["main"]


@in_a_loop
async def test_it_is_saved_with_the_cell_that_runs() -> None:
    session = PausedSession(LOAN)
    session.keeps_variables = False
    async with continuing(session) as notebook:
        sent = notebook.send("print('on', flush=True); import time; time.sleep(30)")
        await notebook.wait_output(sent, "on")
    assert session.paused == ["main"]


@in_a_loop
async def test_it_is_not_saved_by_a_restart() -> None:
    session = PausedSession(LOAN)
    async with continuing(session) as notebook:
        await notebook.reply(notebook.control("shutdown_request", {"restart": True}), "control")
    assert session.paused == []


@in_a_loop
async def test_any_other_notebook_just_ends() -> None:
    session = PausedSession(None)
    async with continuing(session) as notebook:
        await notebook.run("x = 1")
    assert session.paused == []


async def lent(notebook: Notebook) -> None:
    """Two forks, of which another notebook has one."""
    await notebook.run("%fork 2 --names ridge,forest")
    ridge = notebook.session.branch("ridge")
    await ridge.end(BranchState.LENT)
    ridge.record = replace(ridge.record, lent_to=SessionId("s-other"))


@in_a_loop
async def test_a_cell_in_all_branches_leaves_out_what_another_notebook_has_and_says_so() -> None:
    async with open_notebook() as notebook:
        await lent(notebook)
        answer = await notebook.run("%%branch all\nprint(branch.name)")
        assert answer.status == "ok"
        assert "ridge is left out" in answer.text
        assert "── forest" in answer.text
        assert "── ridge" not in answer.text


@in_a_loop
async def test_a_cell_for_it_alone_is_refused_with_who_has_it() -> None:
    async with open_notebook() as notebook:
        await lent(notebook)
        answer = await notebook.run("%%branch ridge\n1")
        assert answer.reply["content"]["evalue"].startswith("ridge is open as ")


@in_a_loop
async def test_a_branch_that_a_notebook_never_came_for_is_told_of_once() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names ridge")
        notebook.session.came_back.append(("ridge", "/notes/demo-ridge.ipynb"))
        told = (await notebook.run("%switch ridge")).text
        assert "ridge is here again   demo-ridge.ipynb, which had it, was never opened" in told
        assert "is here again" not in (await notebook.run("%branches")).text


@in_a_loop
async def test_what_the_session_removed_by_itself_is_told_once_below_what_was_done() -> None:
    async with open_notebook() as notebook:
        words = "over the budget of the store: removed auto-3; 41.0 MB are free"
        notebook.session.notices.append(words)
        told = (await notebook.run("%checkpoint loaded")).text.splitlines()
        assert told[0].startswith("● loaded")
        assert told[-1] == f"⚠ {words}"
        assert words not in (await notebook.run("%branches")).text


@in_a_loop
async def test_a_lent_branch_is_compared_as_it_was_lent_and_that_is_said() -> None:
    async with open_notebook() as notebook:
        await lent(notebook)
        told = (await notebook.run("%diff ridge")).text
        assert "from ridge as it was lent to another notebook, at " in told

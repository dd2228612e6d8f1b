"""What an owner is asked while code runs in its session, what it cannot do, and how it ends."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.runtime.served import HeldRuns, asked, served

from branchpoint_vmruntime.control_facts import OwnerKind
from branchpoint_vmruntime.control_ops import save_all
from branchpoint_vmruntime.control_socket import ControlClient
from branchpoint_vmruntime.errors import FreezeError, SessionBusyError, UsageError
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.ownership import BY_KERNEL
from branchpoint_vmruntime.session_control import SessionControl


@in_a_loop
async def test_while_code_runs_its_branch_is_saved_and_looked_at_but_not_paused(
    tmp_path: Path, runs: HeldRuns
) -> None:
    async with asked(tmp_path) as (there, control), SessionControl(there.socket) as other:
        running = asyncio.create_task(control.run("work()"))
        await runs.began.wait()
        assert [it.busy for it in await other.branches()] == [True]
        await other.checkpoint("meanwhile")
        with pytest.raises(SessionBusyError, match="code runs in branch 'main'"):
            await other.pause()
        with pytest.raises(UsageError):
            await there.session.pause()
        runs.go.set()
        assert (await running).text == "main: work()"
        assert (await other.pause()).branch.state is BranchState.PAUSED


@in_a_loop
async def test_a_branch_whose_cell_runs_is_not_paused(tmp_path: Path) -> None:
    async with asked(tmp_path) as (there, control):
        there.session.executes = lambda branch: branch == "main"
        with pytest.raises(SessionBusyError):
            await control.pause()


@in_a_loop
async def test_the_end_saves_what_lives_whatever_runs_there(tmp_path: Path, runs: HeldRuns) -> None:
    async with asked(tmp_path) as (there, control), ControlClient(there.socket) as other:
        await control.fork(1, names=["a"])
        running = asyncio.create_task(control.run("work()"))
        await runs.began.wait()
        answer = await other.ask("end")
        assert [it["branch"]["name"] for it in answer["saved"]] == ["main", "a"]
        assert answer["lost"] == []
        assert there.ended.is_set()
        assert [b.state for b in there.session.branches()] == [BranchState.PAUSED] * 2
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@in_a_loop
async def test_the_end_without_saving_names_what_is_lost(tmp_path: Path) -> None:
    async with served(tmp_path) as there, ControlClient(there.socket) as client:
        answer = await client.ask("end", save=False)
        assert (answer["saved"], answer["lost"]) == ([], ["main"])
        assert there.ended.is_set()


@in_a_loop
async def test_what_cannot_be_saved_is_not_ended_and_the_others_are_saved(tmp_path: Path) -> None:
    async with served(tmp_path) as there, ControlClient(there.socket) as client:
        await there.session.fork(1, names=["a"])
        there.workshop.draft_error = FreezeError("it does not come to rest")
        with pytest.raises(FreezeError):
            await client.ask("end")
        assert not there.ended.is_set()
        assert [b.state for b in there.session.branches()] == [BranchState.LIVE] * 2
        there.workshop.draft_error = None
        assert len((await client.ask("end"))["saved"]) == 2


@in_a_loop
async def test_once_it_ends_nothing_more_is_begun(tmp_path: Path) -> None:
    async with served(tmp_path) as there, ControlClient(there.socket) as client:
        await client.ask("end")
        with pytest.raises(SessionBusyError, match="just being closed"):
            await client.ask("resume")


@in_a_loop
async def test_a_kernel_does_not_end_because_it_is_asked_to(tmp_path: Path) -> None:
    async with asked(tmp_path, BY_KERNEL) as (there, control):
        assert (await control.session()).kind is OwnerKind.KERNEL
        with pytest.raises(UsageError, match="a notebook's kernel") as refused:
            await control.end()
        assert "Jupyter" in refused.value.hint
        assert there.session.current.state is BranchState.LIVE


@pytest.mark.parametrize("op", ["preview", "diff"])
@in_a_loop
async def test_a_session_without_a_notebooks_kernel_says_that_it_looks_into_no_machine(
    op: str, tmp_path: Path
) -> None:
    async with asked(tmp_path) as (_, control):
        with pytest.raises(UsageError, match="open without its notebook's kernel") as refused:
            await control.ask(op, target="base")
        assert "`branchpoint close`" in refused.value.hint


@in_a_loop
async def test_a_kernel_that_is_just_starting_looks_into_machines_in_a_moment(
    tmp_path: Path,
) -> None:
    async with asked(tmp_path, BY_KERNEL) as (_, control):
        with pytest.raises(SessionBusyError, match="kernel is just starting"):
            await control.ask("preview", target="base")


@in_a_loop
async def test_saving_all_lets_cells_be_told_of_again(tmp_path: Path) -> None:
    def executes(_branch: str) -> bool:
        return True

    async with served(tmp_path) as there:
        there.session.executes = executes
        assert len(await save_all(there.session)) == 1
        assert there.session.executes is executes

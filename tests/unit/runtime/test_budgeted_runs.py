"""Code and commands that are asked for from outside are held to the budgets of their branch."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Never

import pytest
from tests.support.exec_guest import OneBranch
from tests.support.front_end import in_a_loop
from tests.unit.runtime.served import HeldRuns, Served, asked

from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.control_socket import ControlServer
from branchpoint_vmruntime.errors import BudgetError, StreamResetError
from branchpoint_vmruntime.exec_control import exec_at, exec_upgrade
from branchpoint_vmruntime.executing import ExecSpec
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.outside import stopping
from branchpoint_vmruntime.outside.facts import Limits

LIVED_S = 7200.0


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> HeldRuns:
    """Has code run until it is interrupted."""
    held = HeldRuns()

    async def run(branch: OwnedBranch, code: str, *, timeout_s: float) -> object:
        return await held.run(branch, code, timeout_s=timeout_s)

    async def interrupt(_: OwnedBranch) -> None:
        held.go.set()

    monkeypatch.setattr(OwnedBranch, "run", run)
    monkeypatch.setattr(OwnedBranch, "interrupt", interrupt)
    monkeypatch.setattr(stopping, "TICK_S", 0.01)
    return held


def use_up_time(there: Served, branch: str = "main") -> None:
    """A branch has lived for as long as it may."""
    spending = there.session.outside.spending
    spending.limits = Limits(wall_s=LIVED_S)
    spending.count_time(branch, LIVED_S)


@in_a_loop
async def test_where_a_budget_is_used_up_no_code_is_run(tmp_path: Path, runs: HeldRuns) -> None:
    async with asked(tmp_path) as (there, control):
        await control.fork(1, names=["b"])
        use_up_time(there)
        with pytest.raises(BudgetError, match="used up by the branch 'main'"):
            await control.run("x")
        assert not runs.began.is_set()
        runs.go.set()
        assert (await control.run("x", branch="b")).text == "b: x"


@in_a_loop
async def test_a_branch_that_may_run_no_more_is_not_woken_for_code(
    tmp_path: Path, runs: HeldRuns
) -> None:
    async with asked(tmp_path) as (there, control):
        await control.pause()
        use_up_time(there)
        with pytest.raises(BudgetError):
            await control.run("x")
        assert there.session.current.state is BranchState.PAUSED
        assert not runs.began.is_set()


@in_a_loop
async def test_code_is_interrupted_when_a_budget_is_used_up(tmp_path: Path, runs: HeldRuns) -> None:
    async with asked(tmp_path) as (there, control):
        running = asyncio.create_task(control.run("while True: pass"))
        await runs.began.wait()
        use_up_time(there)
        with pytest.raises(BudgetError, match="used up by the branch 'main'"):
            await running
        assert runs.go.is_set()


class UsedUp:
    """A budget that is used up when told."""

    def __init__(self) -> None:
        self.now = asyncio.Event()

    def require(self, branch: str) -> None:
        if self.now.is_set():
            raise BudgetError(f"the time of {branch!r} is used up")

    async def until_over(self, branch: str) -> Never:
        await self.now.wait()
        raise BudgetError(f"the time of {branch!r} is used up")


def with_budget(
    test: Callable[[Path, UsedUp], Coroutine[Any, Any, None]],
) -> Callable[[Path], None]:
    """Run a test in a loop, with a session that is open and a budget to be used up."""

    @in_a_loop
    async def run(tmp_path: Path) -> None:
        branch, budget = OneBranch(), UsedUp()
        socket = tmp_path / "s.sock"
        async with ControlServer(socket, {}, upgrades={"exec": exec_upgrade(branch, budget)}):
            await test(socket, budget)
        await branch.streams.end()

    run.__name__ = test.__name__
    return run


@with_budget
async def test_where_a_budget_is_used_up_no_command_is_begun(socket: Path, budget: UsedUp) -> None:
    budget.now.set()
    with pytest.raises(BudgetError, match="'main' is used up"):
        async with exec_at(socket, ExecSpec(argv=["true"])):
            pass


@with_budget
async def test_a_command_is_cut_off_when_a_budget_is_used_up(socket: Path, budget: UsedUp) -> None:
    async with exec_at(socket, ExecSpec(argv=["sleep", "1000"])) as running:
        budget.now.set()
        with pytest.raises(StreamResetError, match="the time of 'main' is used up"):
            await running.read()

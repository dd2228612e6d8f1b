"""The figures that move by themselves: as whoever shows them asks for them, and how often."""

from pathlib import Path

import pytest
from tests.support.fake_workshop import office
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.branch_seam import MemoryUse
from branchpoint_vmruntime.control_facts import OwnerKind, to_json
from branchpoint_vmruntime.figures import QUICK_S, SLOW_S, BranchFigures, Figures, Pace
from branchpoint_vmruntime.outside import stopping
from branchpoint_vmruntime.view_ops import ViewOps
from branchpoint_vmruntime.viewing import view_of


@in_a_loop
async def test_figures_are_told_of_live_branches_alone_and_without_their_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def memory(_branch: OwnedBranch) -> MemoryUse:
        return MemoryUse(own_bytes=7_400_000, shared_bytes=411_600_000)

    monkeypatch.setattr(OwnedBranch, "memory", memory)
    # Time counts while it is live; not here.
    monkeypatch.setattr(stopping, "TICK_S", 3600.0)
    async with office(tmp_path) as it:
        await it.session.fork(1, names=["ridge"])
        await it.session.drop(["ridge"])
        it.session.outside.spending.count_time("main", 61.2)
        told = await ViewOps(it.session, OwnerKind.KERNEL).handlers()["figures"]({})
        wanted = BranchFigures(own_bytes=7_000_000, shared_bytes=412_000_000, lived_s=61)
        assert told == {"figures": {"main": to_json(wanted)}}


@in_a_loop
async def test_each_figure_has_the_name_that_it_has_in_a_view(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        (branch,) = to_json(await view_of(it.session))["branches"]
        names = to_json(BranchFigures(own_bytes=None, shared_bytes=None, lived_s=0)).keys()
        assert names <= branch.keys() | branch["facts"].keys()


def main_with(own_bytes: int | None, tokens_in: int = 0) -> Figures:
    figures = BranchFigures(own_bytes=own_bytes, shared_bytes=0, lived_s=0, tokens_in=tokens_in)
    return {"main": to_json(figures)}


def test_figures_that_hardly_move_are_looked_at_ever_more_seldom() -> None:
    pace = Pace()
    assert pace.is_news(main_with(1000_000_000))
    waits: list[float] = []
    for megabytes in (1001, 1002, 1003, 1004):
        assert pace.is_news(main_with(megabytes * 1_000_000))
        waits.append(pace.wait_s)
    assert waits == [2 * QUICK_S, 4 * QUICK_S, SLOW_S, SLOW_S]
    assert not pace.is_news(main_with(1004_000_000))


@pytest.mark.parametrize(
    "after",
    [main_with(1100_000_000), main_with(None), main_with(1000_000_000, tokens_in=1), {}],
    ids=["memory", "no machine", "a token", "no branch"],
)
def test_figures_that_move_are_looked_at_soon_again(after: Figures) -> None:
    pace = Pace()
    for _ in range(4):
        pace.is_news(main_with(1000_000_000))
    assert pace.wait_s == SLOW_S
    assert pace.is_news(after)
    assert pace.wait_s == QUICK_S


def test_after_all_was_told_anew_the_same_figures_are_news() -> None:
    pace = Pace()
    for _ in range(3):
        pace.is_news(main_with(1000_000_000))
    pace.hurry()
    assert pace.wait_s == QUICK_S
    assert pace.is_news(main_with(1000_000_000))

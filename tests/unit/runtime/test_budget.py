"""Room for machines: the tightest of the host's memory and the manifest's budgets."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_workshop import Office, office
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime.budget import MACHINE_BYTES, Budgets, room
from branchpoint_vmruntime.errors import UsageError

AMPLE = 1 << 40
amounts = st.integers(0, 1 << 36)
numbers = st.integers(1, 100)


@given(amounts, amounts, st.integers(0, 100), st.none() | amounts, st.none() | numbers)
def test_as_many_as_there_is_room_for_fit_and_one_more_does_not(
    available: int, own: int, live: int, memory: int | None, machines: int | None
) -> None:
    budgets = Budgets(memory_bytes=memory, machines=machines)
    left = room(budgets, live=live, own_bytes=own, available_bytes=available)
    left.require(left.machines)
    with pytest.raises(UsageError, match="no room"):
        left.require(left.machines + 1)
    assert 0 <= left.machines * MACHINE_BYTES <= available


TIGHT = {
    "the host's memory": (Budgets(), 2 * MACHINE_BYTES, "memory available"),
    "the budget of memory": (Budgets(memory_bytes=3 * MACHINE_BYTES), AMPLE, "budget of 192 MB"),
    "the budget of machines": (Budgets(machines=3), AMPLE, "budget is 3, and 1 live"),
}


@pytest.mark.parametrize(("budgets", "available", "words"), TIGHT.values(), ids=TIGHT.keys())
def test_what_is_tightest_is_named(budgets: Budgets, available: int, words: str) -> None:
    left = room(budgets, live=1, own_bytes=MACHINE_BYTES, available_bytes=available)
    assert left.machines == 2
    with pytest.raises(UsageError, match=words):
        left.require(3)


async def fill(it: Office) -> None:
    """Fork until there is no more room."""
    count = it.session.room()
    await it.session.fork(count)
    assert it.session.room() == 0


@in_a_loop
async def test_a_session_forks_up_to_its_budget_and_no_further(tmp_path: Path) -> None:
    async with office(tmp_path, budgets=Budgets(machines=4)) as it:
        await fill(it)
        before = it.session.checkpoints()
        with pytest.raises(UsageError, match="budget is 4, and 4 live"):
            await it.session.fork(1)
        assert len(it.workshop.living()) == 4
        assert it.session.checkpoints() == before


@in_a_loop
async def test_what_is_dropped_makes_room(tmp_path: Path) -> None:
    async with office(tmp_path, budgets=Budgets(machines=3)) as it:
        await it.session.fork(2, names=["a", "b"])
        await it.session.drop(["a", "b"])
        assert it.session.room() == 2


@in_a_loop
async def test_memory_that_machines_took_since_leaves_less_room(tmp_path: Path) -> None:
    async with office(tmp_path, budgets=Budgets(memory_bytes=10 * MACHINE_BYTES)) as it:
        it.machine("main").own_bytes = 7 * MACHINE_BYTES
        assert it.session.room() == 3


@in_a_loop
async def test_a_machine_that_was_lost_takes_no_room(tmp_path: Path) -> None:
    async with office(tmp_path, budgets=Budgets(machines=3)) as it:
        await it.session.fork(2, names=["a", "b"])
        await it.machine("a").end()
        assert it.session.room() == 1


@in_a_loop
async def test_a_host_without_memory_refuses_a_fork_in_words(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        it.workshop.host_bytes = MACHINE_BYTES
        with pytest.raises(UsageError, match="this host has 64 MB of memory available"):
            await it.session.fork(2)


@in_a_loop
async def test_a_rollback_needs_no_room(tmp_path: Path) -> None:
    async with office(tmp_path, budgets=Budgets(machines=1)) as it:
        await it.session.checkpoint("goal")
        await it.session.rollback("goal")
        assert len(it.workshop.living()) == 1

"""A session opened again: a fresh `main`, and what an earlier owner left still within reach."""

from pathlib import Path

import pytest
from tests.support.fake_workshop import BASE, office
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime.errors import UnknownNameError
from branchpoint_vmruntime.lineage import BranchState


async def first_owner(folder: Path) -> None:
    """Saves on main, forks two, parks them, leaves."""
    async with office(folder) as it:
        await it.session.checkpoint("loaded")
        await it.session.fork(2, start="loaded", names=["ridge", "forest"])
        await it.session.keep("main")


@in_a_loop
async def test_main_is_fresh_from_the_base_again(tmp_path: Path) -> None:
    await first_owner(tmp_path)
    async with office(tmp_path) as it:
        assert it.session.current.name == "main"
        assert it.session.current.record.head == BASE.id
        assert it.machine("main").woken_from == BASE.id


@in_a_loop
async def test_its_checkpoints_are_found_and_can_be_gone_back_to(tmp_path: Path) -> None:
    await first_owner(tmp_path)
    async with office(tmp_path) as it:
        loaded = it.session.find("loaded")
        await it.session.rollback("loaded")
        assert it.session.current.record.head == loaded.id


@in_a_loop
async def test_its_branches_are_set_aside_so_that_their_names_are_free(tmp_path: Path) -> None:
    await first_owner(tmp_path)
    async with office(tmp_path) as it:
        report = await it.session.fork(2, start="loaded", names=["ridge", "forest"])
        assert len(report) == 2
        assert it.session.branch("ridge~1").state is BranchState.PARKED


@in_a_loop
async def test_a_branch_set_aside_is_woken_from_where_it_was_left(tmp_path: Path) -> None:
    await first_owner(tmp_path)
    async with office(tmp_path) as it:
        head = it.session.branch("forest~1").record.head
        await it.session.switch("forest~1")
        assert it.machine("forest~1").woken_from == head
        assert it.session.current.state is BranchState.LIVE


@in_a_loop
async def test_a_main_that_was_live_is_lost_and_not_silently_the_new_one(tmp_path: Path) -> None:
    await first_owner(tmp_path)
    async with office(tmp_path) as it:
        assert it.session.branch("main~1").state is BranchState.LOST
        assert it.session.branch("main~1").record.head == it.session.find("loaded").id


@in_a_loop
async def test_a_branch_that_never_left_the_base_is_not_kept(tmp_path: Path) -> None:
    async with office(tmp_path):
        pass
    async with office(tmp_path) as it:
        with pytest.raises(UnknownNameError) as caught:
            it.session.branch("main~1")
        assert caught.value.known == ("main",)


@in_a_loop
async def test_each_owner_s_branches_keep_their_own_names(tmp_path: Path) -> None:
    for _ in range(3):
        await first_owner(tmp_path)
    async with office(tmp_path) as it:
        kept = {branch.name for branch in it.session.branches() if branch.name.startswith("ridge")}
        assert kept == {"ridge~1", "ridge~2", "ridge~3"}


@in_a_loop
async def test_what_earlier_owners_did_stays_on_record(tmp_path: Path) -> None:
    await first_owner(tmp_path)
    async with office(tmp_path) as it:
        verbs = [operation.op for operation in it.session.operations()]
        assert verbs.count("start") == 2
        assert verbs.count("fork") == 2

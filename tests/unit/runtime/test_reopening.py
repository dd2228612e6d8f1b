"""A session opened again: with a fresh `main` beside what an earlier owner left, or as that."""

import logging
from pathlib import Path

import pytest
from tests.support.fake_workshop import BASE, FakeWorkshop, office
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime.errors import UnknownNameError, UsageError, WakeError
from branchpoint_vmruntime.lineage import BranchState, CheckpointKind


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


@in_a_loop
async def test_carried_on_with_it_is_what_it_was_and_no_machine_is_started(tmp_path: Path) -> None:
    await first_owner(tmp_path)
    async with office(tmp_path) as it:
        await it.session.switch("ridge~1")
        left = {branch.name for branch in it.session.branches()}
        await it.session.pause()
    async with office(tmp_path, fresh=False) as it:
        assert {branch.name for branch in it.session.branches()} == left
        assert it.session.current.name == "ridge~1"
        assert it.session.current.state is BranchState.PAUSED
        assert it.workshop.machines == []
        head = it.session.current.record.head
        assert (await it.session.awake()).state is BranchState.LIVE
        assert it.machine("ridge~1").woken_from == head


@in_a_loop
async def test_carried_on_with_what_was_live_is_lost_and_says_since_when_and_what_to_do(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as it:
        saved = await it.session.checkpoint("loaded")
    async with office(tmp_path, fresh=False) as it:
        assert it.session.current.state is BranchState.LOST
        with pytest.raises(UsageError, match=r"ended without being saved.*'loaded'") as caught:
            await it.session.awake()
        assert "%switch main" in caught.value.hint
        assert "branchpoint resume" in caught.value.hint
        assert it.workshop.machines == []
        assert (await it.session.resume()).checkpoint == saved
        assert it.session.current.state is BranchState.LIVE


@in_a_loop
async def test_carried_on_with_a_branch_that_never_left_the_base_is_there_still(
    tmp_path: Path,
) -> None:
    async with office(tmp_path):
        pass
    async with office(tmp_path, fresh=False) as it:
        assert it.session.current.state is BranchState.LOST
        await it.session.switch("main")
        assert it.machine("main").woken_from == BASE.id


@in_a_loop
async def test_there_is_nothing_to_carry_on_with_in_a_new_session(tmp_path: Path) -> None:
    async with office(tmp_path, fresh=False) as it:
        assert it.session.current.state is BranchState.LIVE
        assert it.session.record.current == "main"


@in_a_loop
async def test_what_was_paused_is_paused_still_beside_a_fresh_main(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.pause()
    async with office(tmp_path) as it:
        assert it.session.current.name == "main"
        assert it.session.branch("main~1").state is BranchState.PAUSED
        assert (await it.session.awake("main~1")).state is BranchState.LIVE


@in_a_loop
async def test_a_fresh_main_that_does_not_come_up_leaves_the_former_branch_to_carry_on_with(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("loaded")
        await it.session.pause()
    broken = FakeWorkshop(wake_errors={"main": WakeError("it does not wake")})
    with pytest.raises(WakeError):
        async with office(tmp_path, broken):
            pass
    async with office(tmp_path, fresh=False) as it:
        assert it.session.current.name == "main~1"
        assert it.session.current.state is BranchState.PAUSED


async def with_a_start(folder: Path) -> str:
    """A session whose fresh machines start from a checkpoint of it, which this gives."""
    async with office(folder) as it:
        saved = await it.session.checkpoint("baked")
        it.register.start_from(saved)
        return saved.id


@in_a_loop
async def test_a_fresh_main_starts_where_the_session_says_and_base_is_the_base_still(
    tmp_path: Path,
) -> None:
    start = await with_a_start(tmp_path)
    async with office(tmp_path) as it:
        assert it.machine("main").woken_from == start
        assert it.session.current.record.origin == start
        assert it.workshop.reseeded["main"]
        await it.session.rollback("base")
        assert it.machine("main").woken_from == BASE.id
        assert it.session.record.start == start
    async with office(tmp_path) as it:
        assert it.machine("main").woken_from == start


@in_a_loop
async def test_a_start_that_cannot_be_loaded_gives_way_to_the_base_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await with_a_start(tmp_path)
    refuses = FakeWorkshop(kind_errors={CheckpointKind.USER: WakeError("of another machine")})
    with caplog.at_level(logging.WARNING):
        async with office(tmp_path, refuses) as it:
            assert it.machine("main").woken_from == BASE.id
    assert "starts from the base" in caplog.text
    assert "of another machine" in caplog.text


@in_a_loop
async def test_a_start_is_removed_by_nobody_and_can_be_given_up(tmp_path: Path) -> None:
    await with_a_start(tmp_path)
    async with office(tmp_path) as it:
        await it.session.rollback("base", safety=False)
        await it.session.drop(
            [b.name for b in it.session.branches() if b is not it.session.current]
        )
        baked = it.session.find("baked")
        assert await it.session.remove([baked]) == []
        it.register.start_from(None)
        assert await it.session.remove([baked]) == [baked]

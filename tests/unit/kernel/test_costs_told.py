"""What costs are told of which branch."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from tests.unit.lineage.facts import DAY, a_base, a_branch, a_checkpoint

from branchpoint_kernel.costs_told import put_together
from branchpoint_vmruntime.lineage import BranchRecord, Checkpoint, CheckpointCost, SessionId


def disk_of(branches: Sequence[BranchRecord], checkpoints: Sequence[Checkpoint]) -> dict[str, int]:
    """What is told to be on disk, by branch."""
    told = put_together(
        branches,
        checkpoints,
        (),
        (),
        lived_s=lambda _: None,
        memory=lambda _: None,
        limits=None,
        currency="",
    )
    return {row.name: row.disk_bytes for row in told.rows}


def made(name: str, minute: int) -> BranchRecord:
    return replace(a_branch(name), created_at=DAY + timedelta(minutes=minute))


def saved(minute: int, size: int, *, branch: str = "main", session: str = "") -> Checkpoint:
    cost = CheckpointCost(memory_bytes=size)
    point = a_checkpoint(f"c{minute}", branch=branch, minute=minute, cost=cost)
    return replace(point, session=SessionId(session)) if session else point


def test_memory_devices_and_disk_of_a_checkpoint_are_on_disk() -> None:
    cost = CheckpointCost(memory_bytes=100, device_bytes=10, disk_bytes=1)
    assert disk_of([a_branch()], [a_checkpoint("one", cost=cost)]) == {"main": 111}


def test_what_another_session_saved_is_on_nobodys_account_here() -> None:
    base = replace(a_base(), cost=CheckpointCost(memory_bytes=1000))
    there = [base, saved(1, 100), saved(2, 10, session="another")]
    assert disk_of([made("main", 0)], there) == {"main": 100}


def test_after_a_restart_a_branch_does_not_have_what_the_one_of_its_name_had_saved() -> None:
    branches = [made("main~1", 0), made("ridge", 5), made("main", 60)]
    there = [saved(10, 100), saved(70, 10), saved(80, 1, branch="main~1")]
    assert disk_of(branches, there) == {"main~1": 101, "ridge": 0, "main": 10}


def test_what_was_saved_before_all_that_are_on_record_is_told_by_its_name() -> None:
    assert disk_of([made("main", 60)], [saved(10, 100)]) == {"main": 100}

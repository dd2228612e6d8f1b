"""A session of 300 checkpoints on 41 branches, on record alone: no machine was ever in it."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.unit.lineage.facts import a_branch, a_checkpoint

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchRecord,
    BranchState,
    Cell,
    Checkpoint,
    CheckpointCost,
    CheckpointKind,
    Moment,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.removal import remove_session

SESSION = SessionId("large-session")
BRANCHES, EACH, STEPS = 40, 5, 100
_PHASES = ("freeze", "stop", "devices-and-disk", "copy", "resume", "thaw", "write", "hash")
_STATES = (BranchState.PARKED, BranchState.PAUSED, BranchState.DROPPED)


@contextmanager
def large_session(home: Home, notebook: Path) -> Generator[SessionRecord]:
    """Have it on record as that notebook's, which is closed; afterwards it is gone again."""
    main = BranchName("main")
    with Journal.open(home.database) as journal:
        base = next(it for it in journal.every_checkpoint() if it.kind is CheckpointKind.BASE)
        checkpoints, branches = _grown(base)
        record = SessionRecord(
            id=SESSION, key=str(notebook), created_at=base.created_at, current=main
        )
        tip = _branch("main", _step(STEPS), base.id, BranchState.PAUSED)
        journal.add_lineage(record, checkpoints, tip, (), ())
        journal.put_branches(branches)
    try:
        yield record
    finally:
        remove_session(home, SESSION)


def add_one(home: Home, label: str) -> None:
    """Save the notebook's branch once more."""
    with Journal.open(home.database) as journal:
        journal.add_checkpoint(_saved(label, _step(STEPS), "main"), advance=BranchName("main"))


def _grown(base: Checkpoint) -> tuple[list[Checkpoint], list[BranchRecord]]:
    checkpoints = list[Checkpoint]()
    branches = list[BranchRecord]()
    parent = base.id
    for step in range(1, STEPS + 1):
        checkpoints.append(_saved(_step(step), parent, "main"))
        parent = checkpoints[-1].id
    for number in range(BRANCHES):
        name = f"idea-{number}"
        origin = _step(1 + 2 * number)
        head = origin
        for saved in range(EACH):
            checkpoints.append(_saved(f"try-{number}-{saved}", head, name))
            head = checkpoints[-1].id
        branches.append(_branch(name, head, origin, _STATES[number % len(_STATES)]))
    return checkpoints, branches


def _step(number: int) -> str:
    return f"step-{number}"


def _saved(label: str, parent: str, branch: str) -> Checkpoint:
    phases_ms: dict[str, float] = {str(phase): 11.125 for phase in _PHASES}
    cost = CheckpointCost(paused_ms=46.0, memory_bytes=38 << 20, phases_ms=phases_ms)
    made = a_checkpoint(label, parent, branch=branch, session=SESSION, cost=cost)
    cell = Cell(id=f"cell-{label}", count=7, source=f"model = fit({label!r}, rounds=40)")
    return replace(made, moment=Moment(count=7, done=(cell,)))


def _branch(name: str, head: str, origin: str, state: BranchState) -> BranchRecord:
    return a_branch(name, head, origin=origin, parent="main", state=state, session=SESSION)

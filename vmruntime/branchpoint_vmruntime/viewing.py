"""Puts together what is shown of a session: of one that is open, and of one that is on record."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from branchpoint_vmruntime.borrowers import as_it_is
from branchpoint_vmruntime.branch_seam import Branch, MemoryUse
from branchpoint_vmruntime.cell_lines import cells_of_line, first_line, line_and_left
from branchpoint_vmruntime.control_facts import BranchFacts, CheckpointFacts, OwnerKind
from branchpoint_vmruntime.errors import UnknownNameError
from branchpoint_vmruntime.figures import memories
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.lineage import (
    BranchRecord,
    BranchState,
    Cell,
    Checkpoint,
    CheckpointId,
    Operation,
    SessionId,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage_view import (
    MOST_OPERATIONS,
    BranchView,
    CellText,
    CheckpointView,
    LineageView,
    OperationView,
    RanCell,
)
from branchpoint_vmruntime.locks import holder, owner_kind
from branchpoint_vmruntime.outside.costs import BranchCost, Costs
from branchpoint_vmruntime.session import Session
from branchpoint_vmruntime.unfinished import unfinished

_NO_PHASES: Mapping[str, float] = {}
_WAKINGS = ("start", "fork", "rollback", "reopen", "resume")


async def view_of(session: Session, *, owner: OwnerKind = OwnerKind.KERNEL) -> LineageView:
    """What is shown of a session that this process has open, as it is at one moment.

    `owner` is what this process is to others.
    """
    branches = session.branches()
    # Read from the kernel's tables, milliseconds for each GB.
    uses = await asyncio.to_thread(memories, branches)
    checkpoints, pins = session.checkpoints(), session.pins()
    labels = {str(point.id): point.label for point in checkpoints}
    operations = session.operations(newest=MOST_OPERATIONS)[::-1]
    current = session.current
    spent = {it.branch: it for it in session.outside.costs.by_branch(session.record.id)}
    line, left = line_and_left(
        checkpoints, current.record.head, session.ran(current.name), session.undone()
    )
    return LineageView(
        version=session.changes.version,
        session=session.record.id,
        # Looked up: a notebook may be called otherwise since it was opened.
        key=session.key_of(session.record.id) or session.record.key,
        created_at=session.record.created_at,
        owner=owner,
        current=current.name,
        checkpoints=_checkpoints(checkpoints, pins),
        branches=tuple(
            _branch_view(
                branch_facts(
                    session,
                    branch,
                    labels,
                    uses.get(branch.name),
                    busy=session.executes(branch.name),
                ),
                branch.cost.phases_ms or _last_waking(branch.record, operations),
                spent.get(branch.name),
                lived_s=session.outside.spending.time_used_s(branch.name),
                lent_to=_lent_to(branch.record, session.key_of),
            )
            for branch in session.branches()
        ),
        operations=_operations(operations),
        currency=session.outside.currency,
        under_way=session.changes.under_way,
        line=line,
        left=left,
        died=tuple(session.died()),
    )


def view_on_record(home: Home, session_id: str) -> LineageView:
    """What is shown of a session by what is on record of it, whether it is open or not.

    UnknownNameError if there is none. Of one that is open this lacks what only its owner knows:
    memory, time, what is under way, and what was run since the last checkpoints.
    """
    pid = holder(home.layers / session_id)
    with Journal.read(home.database) as journal:
        record = journal.session(SessionId(session_id))
        if record is None:
            known = tuple(it.id for it in journal.sessions())
            raise UnknownNameError("session", session_id, known, hint="`branchpoint ls` lists them")
        there = [as_it_is(home, journal, it) for it in journal.branches(record.id)]
        branches = [_as_left(it, opened=pid is not None) for it in there]
        checkpoints = journal.checkpoints(record.id, (it.head for it in there))
        pins = journal.pins()
        operations = journal.operations(record.id, newest=MOST_OPERATIONS)[::-1]
        keys = {it.id: it.key for it in journal.sessions()}
    spent = _spent(home, record.id)
    labels = {str(point.id): point.label for point in checkpoints}
    head = next((it.head for it in branches if it.name == record.current), "")
    line, left = line_and_left(checkpoints, head)
    return LineageView(
        version=0,
        session=record.id,
        key=record.key,
        created_at=record.created_at,
        owner=None if pid is None else owner_kind(pid),
        current=record.current,
        checkpoints=_checkpoints(checkpoints, pins),
        branches=tuple(
            _branch_view(
                _facts(it, labels, current=it.name == record.current),
                _last_waking(it, operations),
                spent.get(it.name),
                lent_to=_lent_to(it, lambda other: keys.get(other, "")),
            )
            for it in branches
        ),
        operations=_operations(operations),
        line=line,
        left=left,
        # What runs under an owner that lives is on the same record.
        died=unfinished(home.session(record.id)) if pid is None else (),
    )


def cells_of(session: Session, of: str) -> list[CellText]:
    """The cells of a branch, or up to a checkpoint by label or id, oldest first, as they were run.

    UnknownNameError if there is neither.
    """
    with contextlib.suppress(UnknownNameError):
        branch = session.branch(of)
        return _texts(session.checkpoints(), branch.record.head, session.ran(branch.name))
    return _texts(session.checkpoints(), session.find(of).id)


def branch_facts(
    session: Session,
    branch: Branch,
    labels: Mapping[str, str],
    use: MemoryUse | None,
    *,
    busy: bool,
) -> BranchFacts:
    """A branch of a session that is open; `labels` are its checkpoints', by their ids."""
    facts = _facts(branch.record, labels, current=branch is session.current)
    return replace(
        facts,
        own_bytes=use.own_bytes if use else None,
        shared_bytes=use.shared_bytes if use else None,
        awake_ms=branch.cost.awake_ms,
        busy=busy,
    )


def _facts(record: BranchRecord, labels: Mapping[str, str], *, current: bool) -> BranchFacts:
    return BranchFacts(
        name=record.name,
        state=record.state,
        current=current,
        index=record.index,
        parent=record.parent,
        origin=record.origin,
        head=record.head,
        head_label=labels.get(record.head, ""),
        created_at=record.created_at,
    )


def _checkpoints(
    checkpoints: Iterable[Checkpoint], pins: set[CheckpointId]
) -> tuple[CheckpointView, ...]:
    return tuple(_checkpoint(point, pinned=point.id in pins) for point in checkpoints)


def _checkpoint(point: Checkpoint, *, pinned: bool) -> CheckpointView:
    cell = point.moment.cell
    return CheckpointView(
        facts=CheckpointFacts.of(point, pinned=pinned),
        count=point.moment.count,
        cell=None if cell is None else RanCell(id=cell.id, count=cell.count),
        source="" if cell is None else first_line(cell.source),
    )


def _branch_view(
    facts: BranchFacts,
    phases_ms: Mapping[str, float],
    cost: BranchCost | None,
    *,
    lived_s: float = 0.0,
    lent_to: str = "",
) -> BranchView:
    spent = cost or BranchCost(branch=facts.name)
    return BranchView(
        facts=facts,
        phases_ms=dict(phases_ms),
        lived_s=lived_s,
        requests=spent.requests,
        sent_bytes=spent.sent_bytes,
        received_bytes=spent.received_bytes,
        tokens_in=spent.tokens_in,
        tokens_out=spent.tokens_out,
        micros=spent.micros,
        lent_to=lent_to,
    )


def _operations(newest_first: Iterable[Operation]) -> tuple[OperationView, ...]:
    return tuple(
        OperationView(
            op=it.op,
            branch=it.branch,
            checkpoint=it.checkpoint,
            at=it.at,
            total_ms=it.total_ms,
            phases_ms=dict(it.phases_ms),
        )
        for it in newest_first
    )


def _last_waking(branch: BranchRecord, newest_first: Sequence[Operation]) -> Mapping[str, float]:
    wakings = (it for it in newest_first if it.branch == branch.name and it.op in _WAKINGS)
    return next((it.phases_ms for it in wakings), _NO_PHASES)


def _texts(
    checkpoints: Sequence[Checkpoint], head: str, ran: Sequence[Cell] = ()
) -> list[CellText]:
    cells = cells_of_line(checkpoints, head, ran)
    return [CellText(id=cell.id, count=cell.count, source=cell.source) for cell in cells]


def _lent_to(branch: BranchRecord, key_of: Callable[[SessionId], str]) -> str:
    return "" if branch.lent_to is None else key_of(branch.lent_to)


def _as_left(record: BranchRecord, *, opened: bool) -> BranchRecord:
    """A branch as it is now; what was live when its owner ended is lost."""
    if opened or record.state is not BranchState.LIVE:
        return record
    return replace(record, state=BranchState.LOST)


def _spent(home: Home, session: SessionId) -> dict[str, BranchCost]:
    with contextlib.suppress(UnknownNameError), Ledger.read(home.ledger) as ledger:
        return {it.branch: it for it in Costs(ledger).by_branch(session)}
    return {}

"""All sessions of a home at one glance, open or not, and what was left behind by those that ended.

Read from the books, the disk and /proc: no owner is asked, and nothing is made or changed.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from branchpoint_vmruntime.borrowers import as_it_is
from branchpoint_vmruntime.control_facts import OpenSession
from branchpoint_vmruntime.errors import UnknownNameError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.leaks import Leak as Leak
from branchpoint_vmruntime.leaks import LeakKind as LeakKind
from branchpoint_vmruntime.leaks import RunningMachine, disk_bytes, leaks, running_machines
from branchpoint_vmruntime.ledger import SpentSoFar as SpentSoFar
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.lineage import BranchRecord, SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.locks import holders, owner_kind
from branchpoint_vmruntime.memory.dirty import memory_use


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOverview:
    """One session. `owner` is who has it open, None if it is closed.

    `machines` are its living machines, `own_bytes` and `shared_bytes` the host memory they take,
    `disk_bytes` what its files take on the disk and would give back.
    """

    id: str
    key: str
    owner: OpenSession | None
    created_at: datetime
    current: str | None
    branches: tuple[BranchRecord, ...]
    checkpoints: int
    newest_at: datetime | None
    machines: int
    own_bytes: int
    shared_bytes: int
    disk_bytes: int
    spent: SpentSoFar

    @property
    def open(self) -> bool:
        """Whether somebody has it open."""
        return self.owner is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Every session of a home, oldest first, and what was left behind."""

    sessions: tuple[SessionOverview, ...]
    leaks: tuple[Leak, ...]


def overview(home: Home) -> Overview:
    """Look at a home. One in which nothing was ever opened has no sessions.

    Of an open session the machines are counted that are there at the moment.
    """
    machines = _machines_by_session(home)
    spent = _spent(home)
    there = _on_record(home)
    held = holders([home.layers / it.record.id for it in there])
    return Overview(
        sessions=tuple(
            _of_session(
                home,
                facts,
                held.get(home.layers / facts.record.id),
                machines.get(str(facts.record.id), []),
                spent,
            )
            for facts in there
        ),
        leaks=tuple(leaks(home)),
    )


@dataclass(frozen=True, slots=True)
class _OnRecord:
    record: SessionRecord
    branches: tuple[BranchRecord, ...]
    checkpoints: int
    newest_at: datetime | None


def _on_record(home: Home) -> list[_OnRecord]:
    with contextlib.suppress(UnknownNameError), Journal.read(home.database) as journal:
        tallies = journal.tallies()
        return [
            _OnRecord(
                record,
                tuple(as_it_is(home, journal, it) for it in journal.branches(record.id)),
                *tallies.get(record.id, (0, None)),
            )
            for record in journal.sessions()
        ]
    return []


def _spent(home: Home) -> Mapping[str, SpentSoFar]:
    with contextlib.suppress(UnknownNameError), Ledger.read(home.ledger) as ledger:
        return ledger.spent()
    return {}


def _machines_by_session(home: Home) -> dict[str, list[RunningMachine]]:
    found: dict[str, list[RunningMachine]] = {}
    for machine in running_machines(home):
        found.setdefault(machine.session, []).append(machine)
    return found


def _of_session(
    home: Home,
    facts: _OnRecord,
    pid: int | None,
    machines: Sequence[RunningMachine],
    spent: Mapping[str, SpentSoFar],
) -> SessionOverview:
    record, id_ = facts.record, str(facts.record.id)
    owner = None
    if pid is not None:
        owner = OpenSession(id=id_, key=record.key, pid=pid, kind=owner_kind(pid))
    uses = [_memory(machine) for machine in machines if machine.parent == pid]
    places = (home.layers / id_, home.live / id_, home.flat / id_, home.session(id_))
    return SessionOverview(
        id=id_,
        key=record.key,
        owner=owner,
        created_at=record.created_at,
        current=record.current,
        branches=facts.branches,
        checkpoints=facts.checkpoints,
        newest_at=facts.newest_at,
        machines=len(uses),
        own_bytes=sum(own for own, _ in uses),
        shared_bytes=sum(shared for _, shared in uses),
        disk_bytes=disk_bytes(places),
        spent=spent.get(id_, SpentSoFar()),
    )


def _memory(machine: RunningMachine) -> tuple[int, int]:
    try:
        return memory_use(machine.pid)
    except OSError:
        # It has just ended.
        return 0, 0

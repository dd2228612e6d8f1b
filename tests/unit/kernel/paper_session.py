"""A session of names alone, with the real edge: for operations that wake no machine."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from tests.support.fake_outside import edge_in
from tests.support.fake_streams import FakeChannel

from branchpoint_kernel.commands import OutsideCommand
from branchpoint_kernel.drawing import Picture
from branchpoint_kernel.grammar import parse
from branchpoint_kernel.outside_operations import OutsideOperations
from branchpoint_kernel.rendering import as_html, as_text
from branchpoint_vmruntime.branch_seam import MemoryUse
from branchpoint_vmruntime.errors import UnknownNameError
from branchpoint_vmruntime.ledger import Decision, Draft, EntryKind, Outcome, OutcomeState, Usage
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchState,
    Checkpoint,
    CheckpointCost,
    CheckpointId,
    CheckpointKind,
    Moment,
    Operation,
    SessionId,
)
from branchpoint_vmruntime.lineage.naming import resolve
from branchpoint_vmruntime.outside.facts import OutsideSpec
from branchpoint_vmruntime.outside.outside import Outside, View
from branchpoint_vmruntime.session import Session

SESSION = "s-paper"
BEFORE = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass
class PaperBranch:
    """A branch whose machine is a name for an incarnation."""

    name: str
    incarnation: str
    state: BranchState = BranchState.LIVE
    parent: str | None = None
    session: str = SESSION
    created_at: datetime = BEFORE
    streams: FakeChannel = field(default_factory=FakeChannel)

    @property
    def record(self) -> "PaperBranch":
        """Itself: what is used of it is here."""
        return self

    @property
    def kernel(self) -> "PaperBranch":
        """Itself: only `incarnation` is used of it."""
        return self

    def memory(self) -> MemoryUse | None:
        """Something, if it has a machine."""
        if self.state is not BranchState.LIVE:
            return None
        return MemoryUse(own_bytes=61_000_000, shared_bytes=402_000_000)


@dataclass
class PaperRecord:
    """Of a session: its id."""

    id: str = SESSION


class PaperSession:
    """What operations of the outside world use of a session."""

    outside: Outside

    def __init__(self, *names: str) -> None:
        self.record = PaperRecord()
        self.made = {name: PaperBranch(name, f"i-{name}") for name in names}
        self.current = self.made[names[0]]
        self.points: list[Checkpoint] = []
        self.done: list[Operation] = []

    def branches(self) -> list[PaperBranch]:
        """All of them."""
        return list(self.made.values())

    def branch(self, name: str) -> PaperBranch:
        """One of them."""
        if name not in self.made:
            raise UnknownNameError("branch", name, tuple(self.made))
        return self.made[name]

    def checkpoints(self) -> list[Checkpoint]:
        """All of them."""
        return self.points

    def operations(self) -> list[Operation]:
        """All of them."""
        return self.done

    def find(self, name: str) -> Checkpoint:
        """One of them."""
        return resolve(name, self.points)

    def save(
        self, label: str, branch: str = "main", *, cost: CheckpointCost | None = None
    ) -> Checkpoint:
        """A checkpoint of a branch as it is now, with what the ledger holds so far in its past."""
        position = self.outside.ledger.position()
        point = Checkpoint(
            id=CheckpointId(f"c{len(self.points):05}"),
            session=SessionId(SESSION),
            parent=None,
            label=label,
            note="",
            kind=CheckpointKind.USER,
            branch=BranchName(branch),
            created_at=datetime.now(UTC),
            key="paper",
            cost=cost or CheckpointCost(paused_ms=1),
            moment=Moment(incarnation=self.made[branch].incarnation, position=position),
        )
        self.points.append(point)
        return point

    def wrote(
        self,
        method: str,
        url: str,
        *,
        status: int | None = 200,
        state: OutcomeState | None = OutcomeState.DONE,
        branch: str = "main",
        kind: EntryKind = EntryKind.REQUEST,
        decision: Decision = Decision.ALLOWED,
        key: str = "",
        reason: str = "",
        sent_bytes: int = 0,
        usage: Usage | None = None,
    ) -> int:
        """An entry of the ledger, by a branch's present machine; `state` None: under way."""
        draft = Draft(
            session=SESSION,
            branch=branch,
            incarnation=self.made[branch].incarnation,
            checkpoint="",
            kind=kind,
            decision=decision,
            method=method,
            url=url,
            key=key,
            reason=reason,
        )
        if state is None:
            return self.outside.ledger.begin(draft)
        at = datetime.now(UTC)
        outcome = Outcome(at=at, state=state, status=status, sent_bytes=sent_bytes, usage=usage)
        return self.outside.ledger.note(draft, outcome)

    def refused(self, url: str, reason: str, branch: str = "main") -> None:
        """A request that was not let out."""
        refused = Decision.REFUSED
        self.wrote("GET", url, reason=reason, branch=branch, decision=refused, state=None)


def as_session(paper: PaperSession) -> Session:
    """The same, for what wants a whole session and uses what there is."""
    return cast(Session, paper)


@asynccontextmanager
async def on_paper(*names: str, spec: OutsideSpec | None = None) -> AsyncGenerator[PaperSession]:
    """A session with branches of those names, the first of them current."""
    session = PaperSession(*names)
    view = View(
        session=SESSION,
        branch=lambda: session.current.name,
        head=lambda branch: "",
        incarnation=lambda branch: session.made[branch].incarnation,
        streams=lambda branch: session.made[branch].streams,
        checkpoints=session.checkpoints,
        own_bytes=dict[str, int],
    )
    with TemporaryDirectory(prefix="bp-") as name:
        folder = Path(name)
        with closing(Ledger.open(folder / "ledger.db")) as ledger:
            async with edge_in(folder, ledger, view, spec) as outside:
                session.outside = outside
                yield session


class Asked:
    """Magics on a session of names."""

    def __init__(self, session: PaperSession, folder: Path | None = None) -> None:
        self.session = session
        self._operations = OutsideOperations(as_session(session), folder or Path("/nowhere"))
        self.picture: Callable[[], Awaitable[Picture]] | None = None
        self.html = ""
        self.record: dict[str, Any] = {}

    async def __call__(self, line: str, *, inside: str | None = None) -> str:
        """What a magic shows, for a cell or for code inside a branch's machine."""
        name, _, rest = line.removeprefix("%").partition(" ")
        command = parse(name, rest)
        assert isinstance(command, OutsideCommand)
        told = await self._operations.perform(command, inside)
        assert told.op == name
        self.picture = told.picture
        self.html, self.record = as_html(told.lines), dict(told.more)
        return as_text(told.lines)

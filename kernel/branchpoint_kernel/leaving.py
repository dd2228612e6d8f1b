"""What a branch leaves behind outside when it goes back: found before it goes, told after."""

from collections.abc import Sequence
from dataclasses import dataclass

from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.ledger import Entry
from branchpoint_vmruntime.lineage import Checkpoint
from branchpoint_vmruntime.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What is not undone, oldest first; or, in `failure`, why that cannot be told."""

    entries: Sequence[Entry] = ()
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """A branch about to go back: what was known then, and how far the ledger had come."""

    effects: Effects
    incarnation: str
    position: int


class Leavings:
    """Asks the ledger. A ledger that cannot be read is no reason to stay."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def since(self, target: Checkpoint, branch: str | None) -> Effects:
        """What a branch, None the current one, has done outside that `target` knows nothing of."""
        try:
            return Effects(entries=self._session.outside.not_undone(branch, target))
        except BranchpointError as error:
            return Effects(failure=str(error))

    def before(self, target: Checkpoint, branch: str | None) -> Leaving:
        """To be asked just before a branch goes back to `target`."""
        effects = self.since(target, branch)
        try:
            going = self._session.current if branch is None else self._session.branch(branch)
            position = self._session.outside.ledger.position()
            return Leaving(effects=effects, incarnation=going.kernel.incarnation, position=position)
        except BranchpointError:
            return Leaving(effects=effects, incarnation="", position=0)

    async def after(self, leaving: Leaving) -> Effects:
        """The same once it has gone: with what it did up to its end, and as that has ended."""
        if leaving.effects.failure or not leaving.incarnation:
            return leaving.effects
        await self._session.outside.settled(leaving.incarnation)
        ledger, session = self._session.outside.ledger, self._session.record.id
        try:
            known = [ledger.entry(entry.number) for entry in leaving.effects.entries]
            late = ledger.entries(session, since=leaving.position)
        except BranchpointError as error:
            return Effects(failure=str(error))
        late = [entry for entry in late if entry.draft.incarnation == leaving.incarnation]
        effects = [entry for entry in (*known, *late) if entry is not None and entry.is_effect]
        return Effects(entries=effects)

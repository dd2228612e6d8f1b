"""Saves branches: capture, publish and record as one, and the safety checkpoint of a rollback."""

import asyncio
import logging

from branchpoint_vmruntime.branch import Live, OwnedBranch
from branchpoint_vmruntime.checkpoint import CheckpointOrder, Draft
from branchpoint_vmruntime.errors import BranchpointError, MachineError, UsageError
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointKind
from branchpoint_vmruntime.register import Register
from branchpoint_vmruntime.session import Witness
from branchpoint_vmruntime.storage.keeping import Keeping
from branchpoint_vmruntime.workshop import Workshop

log = logging.getLogger(__name__)

SAFETY_LABEL = "before-rollback"
# A machine that is as good as dead would hold everything up by all the patience of a freeze.
SIGN_OF_LIFE_S = 6.0
_LABELS = {CheckpointKind.USER: "checkpoint", CheckpointKind.FORK_POINT: "fork"}


class Saving:
    """Joins the workshop, which makes checkpoints, and the register, which knows of them."""

    def __init__(self, register: Register, workshop: Workshop, witness: Witness) -> None:
        self._register = register
        self._workshop = workshop
        self._witness = witness
        self._keeping = Keeping(register, workshop)
        self.notices = self._keeping.notices

    async def save(
        self,
        branch: OwnedBranch,
        kind: CheckpointKind,
        label: str | None = None,
        *,
        note: str = "",
    ) -> Checkpoint:
        """Save a branch and make that its newest checkpoint; its machine runs on.

        GuestSilentError soon if the machine gives no sign of life.
        """
        live = _usable(branch)
        await branch.ping(timeout_s=SIGN_OF_LIFE_S)
        chosen = label or self._register.next_label(_LABELS.get(kind, kind.value))
        order = self._order(branch, chosen, kind, note)
        pending = await self._workshop.draft(live, order, resume=True)
        saved = await self._workshop.publish(pending, live, self._register.tree())
        self._record(saved, live, advance=branch)
        await self._keeping.collect(saved)
        return saved

    async def save_last(self, branch: OwnedBranch, label: str, kind: CheckpointKind) -> Checkpoint:
        """As `save`, but the machine stays stopped, for the caller to end; it runs on if it fails.

        So nothing happens outside after the moment that is saved, to happen once more.
        """
        live = _usable(branch)
        await branch.ping(timeout_s=SIGN_OF_LIFE_S)
        order = self._order(branch, label, kind)
        pending = await self._workshop.draft(live, order, resume=False)
        try:
            saved = await self._workshop.publish(pending, live, self._register.tree())
            self._record(saved, live, advance=branch)
            await self._keeping.collect(saved)
        except BaseException:
            await let_go_on(live)
            raise
        return saved

    async def draft_safety(self, branch: OwnedBranch) -> tuple[Draft | None, str]:
        """Capture what a rollback is about to leave, and leave it stopped; or say why not."""
        if not branch.usable() or branch.live is None:
            return None, f"not taken: {branch.why_unusable() or 'there was no machine'}"
        label = self._register.next_label(SAFETY_LABEL)
        order = self._order(branch, label, CheckpointKind.SAFETY)
        try:
            await branch.ping(timeout_s=SIGN_OF_LIFE_S)
            return await self._workshop.draft(branch.live, order, resume=False), ""
        except BranchpointError as error:
            return None, f"not taken: {error}"

    async def publish_safety(self, pending: Draft, left: Live) -> tuple[Checkpoint | None, str]:
        """Make what was captured a checkpoint that no branch stands on; or say why not."""
        try:
            saved = await self._workshop.publish(pending, left, self._register.tree())
            self._record(saved, left, advance=None)
        except BranchpointError as error:
            return None, f"not kept: {error}"
        await self._keeping.collect(saved)
        return saved, ""

    async def let_run_on(self, branch: OwnedBranch, pending: Draft | None) -> None:
        """Take a capture back: the rollback it was for did not come to pass."""
        if pending is None or branch.live is None:
            return
        self._workshop.abandon(pending)
        await let_go_on(branch.live)

    def _record(self, saved: Checkpoint, live: Live, *, advance: OwnedBranch | None) -> None:
        try:
            self._register.add_checkpoint(saved, advance=advance)
        except BaseException:
            self._workshop.discard(saved)
            raise
        # Not before: of one that goes again the next checkpoint must hold the disk as well.
        live.machine.overlays_saved()

    def _order(
        self, branch: OwnedBranch, label: str, kind: CheckpointKind, note: str = ""
    ) -> CheckpointOrder:
        return CheckpointOrder(
            session=self._register.record.id,
            parent=branch.record.head,
            label=label,
            note=note,
            kind=kind,
            branch=branch.name,
            witness=self._witness,
        )


async def let_go_on(live: Live) -> None:
    """Let a machine that was left stopped go on, whatever becomes of whoever asks for it."""
    try:
        await asyncio.shield(live.machine.run_on())
    except MachineError as error:
        # What went wrong before is what the caller has to hear.
        log.warning("a machine that was to run on does not: %s", error)


def _usable(branch: OwnedBranch) -> Live:
    failure = branch.why_unusable()
    if failure is not None:
        raise UsageError(
            f"branch {branch.name!r} cannot be saved: {failure}",
            hint="go back with `%rollback`, or `%switch` to another branch",
        )
    return branch.require_live()

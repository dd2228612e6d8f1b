"""Takes branches their machines, saved at their last moment, and gives them back later."""

import time
from datetime import UTC, datetime

from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.lineage import BranchState, Checkpoint, CheckpointKind
from branchpoint_vmruntime.register import Register
from branchpoint_vmruntime.saving import Saving
from branchpoint_vmruntime.session import PauseReport, ResumeReport, WakeReason
from branchpoint_vmruntime.waking import Waking

_STATES = {
    CheckpointKind.PAUSED: BranchState.PAUSED,
    CheckpointKind.PARKED: BranchState.PARKED,
}


class Pausing:
    """Joins saving and waking. Only its session calls it, one thing after another."""

    def __init__(self, register: Register, saving: Saving, waking: Waking) -> None:
        self._register = register
        self._saving = saving
        self._waking = waking

    async def put_away(self, branch: OwnedBranch, kind: CheckpointKind) -> Checkpoint:
        """Save a branch and end its machine, which does nothing after the moment that is saved."""
        label = self._register.next_label(f"{kind}-{branch.name}")
        saved = await self._saving.save_last(branch, label, kind)
        await self._waking.retire(branch, _STATES[kind])
        return saved

    async def pause(self, branch: OwnedBranch) -> PauseReport:
        """Save a branch and end its machine until something is wanted of it."""
        began = time.monotonic()
        use = branch.memory()
        saved = await self.put_away(branch, CheckpointKind.PAUSED)
        total_ms = _since(began)
        self._register.note("pause", branch.name, saved, total_ms, saved.cost.phases_ms)
        return PauseReport(
            branch=branch,
            checkpoint=saved,
            freed_bytes=use.own_bytes if use else 0,
            total_ms=total_ms,
        )

    async def resume(self, branch: OwnedBranch) -> ResumeReport:
        """A machine for a branch that has none, from its last checkpoint."""
        began = time.monotonic()
        if branch.state is BranchState.LIVE:
            raise UsageError(
                f"branch {branch.name!r} is not paused", hint="`%branches` lists what each is"
            )
        if branch.state is BranchState.DROPPED:
            raise UsageError(
                f"branch {branch.name!r} was dropped",
                hint="fork it anew from one of its checkpoints: `%fork 1 --from LABEL`",
            )
        paused = branch.state is BranchState.PAUSED
        reason = WakeReason.RESUME if paused else WakeReason.REOPEN
        head = await self._waking.reopen(branch, reason)
        away_s = (datetime.now(UTC) - head.created_at).total_seconds()
        return ResumeReport(
            branch=branch,
            checkpoint=head,
            away_s=max(0.0, away_s),
            total_ms=_since(began),
            phases_ms=dict(branch.cost.phases_ms),
        )


def _since(start: float) -> float:
    return round(1000 * (time.monotonic() - start), 3)

"""Takes branches their machines, saved at their last moment, and gives them back later."""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.branch_seam import WakeReason
from branchpoint_vmruntime.errors import BranchpointError, UsageError
from branchpoint_vmruntime.lineage import BranchState, Checkpoint, CheckpointKind
from branchpoint_vmruntime.register import Register
from branchpoint_vmruntime.reports import ParkFailure, PauseReport, ResumeReport
from branchpoint_vmruntime.saving import Saving, let_go_on
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
        """Save a branch and end its machine, which does nothing after the moment that is saved.

        If it cannot be saved, or that cannot be put on record, it runs on.
        """
        label = self._register.next_label(f"{kind}-{branch.name}")
        saved = await self._saving.save_last(branch, label, kind)
        live = branch.require_live()
        try:
            self._waking.put(branch, _STATES[kind])
        except BaseException:
            await let_go_on(live)
            raise
        await live.end()
        return saved

    async def park(self, branch: OwnedBranch) -> None:
        """Save a branch and end its machine; one that can no longer be saved is lost."""
        if branch.usable():
            await self.put_away(branch, CheckpointKind.PARKED)
        else:
            await self._waking.retire(branch, BranchState.LOST)

    async def park_all(
        self, branches: Sequence[OwnedBranch]
    ) -> tuple[list[OwnedBranch], list[ParkFailure]]:
        """Park branches at once; those that are parked or lost, and those that run on."""
        outcomes = await asyncio.gather(*map(self.park, branches), return_exceptions=True)
        parked: list[OwnedBranch] = []
        failures: list[ParkFailure] = []
        for branch, outcome in zip(branches, outcomes, strict=True):
            match outcome:
                case None:
                    parked.append(branch)
                case BranchpointError():
                    failures.append(ParkFailure(branch.name, outcome))
                case _:
                    raise outcome
        return parked, failures

    async def pause(self, branch: OwnedBranch) -> PauseReport:
        """Save a branch and end its machine until something is wanted of it."""
        began = time.monotonic()
        if branch.state is BranchState.PAUSED:
            raise UsageError(
                f"branch {branch.name!r} is paused already",
                hint="it gets its machine again as soon as something is wanted of it",
            )
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

    async def resume(self, branch: OwnedBranch, *, reseed: bool = False) -> ResumeReport:
        """A machine for a branch that has none, from its last checkpoint."""
        began = time.monotonic()
        if branch.state is BranchState.LIVE:
            raise UsageError(
                f"branch {branch.name!r} is not paused: it runs already",
                hint="it takes code and commands as it is; `%branches` lists what each is",
            )
        require_not_dropped(branch)
        paused, lost = branch.state is BranchState.PAUSED, branch.state is BranchState.LOST
        reason = WakeReason.RESUME if paused else WakeReason.REOPEN
        head = await self._waking.reopen(branch, reason, reseed=reseed)
        away_s = (datetime.now(UTC) - head.created_at).total_seconds()
        total_ms = _since(began)
        # Its memory is brought together from the layers before a machine can be started on it.
        prepared_ms = round(max(0.0, total_ms - branch.cost.awake_ms), 3)
        return ResumeReport(
            branch=branch,
            checkpoint=head,
            away_s=max(0.0, away_s),
            total_ms=total_ms,
            phases_ms={"prepare": prepared_ms, **branch.cost.phases_ms},
            lost=lost,
        )

    def why_asleep(self, branch: OwnedBranch) -> UsageError:
        """Why a branch has no machine and gets none by itself, and what gives it one."""
        require_not_dropped(branch)
        hint = f"`%switch {branch.name}`, or `branchpoint resume`, carries on from there"
        if branch.state is BranchState.PARKED:
            return UsageError(f"branch {branch.name!r} is parked and has no machine", hint=hint)
        head = self._register.tree().checkpoint(branch.record.head)
        when = head.created_at.astimezone().strftime("%d %b %H:%M")
        return UsageError(
            f"the machine of branch {branch.name!r} ended without being saved: what it did after "
            f"its last checkpoint, {head.label!r} of {when}, is lost",
            hint=hint,
        )


def require_not_dropped(branch: OwnedBranch) -> None:
    """UsageError if a branch was given up."""
    if branch.state is BranchState.DROPPED:
        raise UsageError(
            f"branch {branch.name!r} was dropped",
            hint="fork it anew from one of its checkpoints: `%fork 1 --from LABEL`",
        )


def _since(start: float) -> float:
    return round(1000 * (time.monotonic() - start), 3)

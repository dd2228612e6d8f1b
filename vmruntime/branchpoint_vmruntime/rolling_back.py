"""Takes a branch back: the machine it has is ended only once the other one is awake."""

import asyncio
import time
from dataclasses import replace

from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.branch_seam import WakeReason
from branchpoint_vmruntime.lineage import BranchState, Checkpoint
from branchpoint_vmruntime.register import Register
from branchpoint_vmruntime.reports import RollbackReport
from branchpoint_vmruntime.saving import Saving
from branchpoint_vmruntime.waking import Waking, abandon

# What such a branch leaves needs no checkpoint of its own.
_SAVED_AT_THEIR_LAST = (BranchState.PAUSED, BranchState.PARKED)


class RollingBack:
    """Joins saving and waking. Only its session calls it, one thing after another."""

    def __init__(self, register: Register, saving: Saving, waking: Waking) -> None:
        self._register = register
        self._saving = saving
        self._waking = waking

    async def go_back(
        self, going: OwnedBranch, goal: Checkpoint, *, safety: bool
    ) -> RollbackReport:
        """Wake the branch at `goal`, and save first what it leaves, if that can be and is wanted.

        Whatever fails, it is as it was.
        """
        began = time.monotonic()
        waking = asyncio.create_task(
            self._waking.wake(going.name, going.index, goal, WakeReason.ROLLBACK)
        )
        pending, note = None, "not taken: --no-safety"
        record = replace(going.record, head=goal.id, state=BranchState.LIVE)
        try:
            if safety:
                pending, note = await self._saving.draft_safety(going)
            live = await waking
            self._register.put(record)
        except BaseException:
            await abandon(waking)
            await self._saving.let_run_on(going, pending)
            raise
        awake_ms = _since(began)
        left, saved = going.live, None
        if safety and going.state in _SAVED_AT_THEIR_LAST:
            saved, note = self._register.tree().checkpoint(going.record.head), ""
        going.become(record, live)
        try:
            if pending is not None and left is not None:
                saved, note = await self._saving.publish_safety(pending, left)
        finally:
            if left is not None:
                await left.end()
        total_ms = _since(began)
        phases = live.cost.phases_ms | {"until-awake": awake_ms}
        self._register.note("rollback", going.name, goal, total_ms, phases)
        return RollbackReport(
            branch=going,
            checkpoint=goal,
            safety=saved,
            safety_note=note,
            total_ms=total_ms,
            phases_ms=phases,
        )


def _since(start: float) -> float:
    return round(1000 * (time.monotonic() - start), 3)

"""Pauses and resumes branches for commands."""

from branchpoint_kernel.commands import Pause, Resume
from branchpoint_kernel.pause_rendering import (
    pause_lines,
    pause_record,
    resume_lines,
    resume_record,
)
from branchpoint_kernel.told import Told
from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.session import Session


class PauseOperations:
    """What `%pause` and `%resume` do, in their turn."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.under_way = False

    async def pause(self, command: Pause, asked_from: str | None) -> Told:
        """Pause a branch; `asked_from` is the one whose code asks, None if a cell of ours does."""
        branch = self._named(command.name, asked_from)
        if branch.name == asked_from:
            raise UsageError(
                f"code in branch {branch.name!r} cannot pause the machine it runs in",
                hint="put %pause in a cell of its own, or name another branch",
            )
        # Of one that is lent the session knows who has it, and whether that is still so.
        if branch.state not in (BranchState.LIVE, BranchState.LENT):
            hint = f"%resume {branch.name} gives it one again; %branches lists what each is"
            raise UsageError(
                f"branch {branch.name!r} is {branch.state} and has no machine", hint=hint
            )
        self.under_way = True
        try:
            report = await self._session.pause(branch.name)
        finally:
            self.under_way = False
        is_current = branch.name == self._session.current.name
        return Told(
            op="pause",
            lines=pause_lines(report, is_current=is_current),
            more=pause_record(report),
            checkpoint=report.checkpoint,
            phases_ms=report.checkpoint.cost.phases_ms,
            total_ms=report.total_ms,
        )

    async def resume(self, command: Resume, asked_from: str | None) -> tuple[Told, Branch]:
        """Resume a branch; also what it is, now that it has its machine."""
        branch = self._named(command.name, asked_from)
        report = await self._session.resume(branch.name)
        told = Told(
            op="resume",
            lines=resume_lines(report),
            more=resume_record(report),
            checkpoint=report.checkpoint,
            phases_ms=report.phases_ms,
            total_ms=report.total_ms,
        )
        return told, report.branch

    def _named(self, name: str | None, asked_from: str | None) -> Branch:
        chosen = name or asked_from
        return self._session.current if chosen is None else self._session.branch(chosen)

"""Gives paused branches their machines again as soon as something is wanted of them."""

from branchpoint_kernel.pumps import Pumps
from branchpoint_kernel.turns import Turns
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.reports import ResumeReport
from branchpoint_vmruntime.session import Session


class Awakening:
    """Resumes branches for the kernel, and follows those that others resume."""

    def __init__(self, session: Session, pumps: Pumps, turns: Turns) -> None:
        self._session = session
        self._pumps = pumps
        self._turns = turns
        self._reports: dict[str, ResumeReport] = {}

    @property
    def is_current_away(self) -> bool:
        """Whether the machine that plain cells run in is paused."""
        return self._session.current.state is BranchState.PAUSED

    async def need(self, name: str | None = None) -> ResumeReport | None:
        """See to it that a branch, or the current one, has its machine if it was paused or lent.

        What that took, if it took anything. BranchpointError if it does not come up.
        """
        await self._turns.wait_settled()
        # Of one that is lent the session knows who has it, and whether that is still so.
        if self._branch_state(name) not in (BranchState.PAUSED, BranchState.LENT):
            return None
        async with self._turns.take():
            self._reports.clear()
            branch = await self._session.awake(name)
            return self._reports.pop(branch.name, None)

    def note(self, report: ResumeReport) -> None:
        """A branch has been resumed that nobody asked to be: take on its kernel."""
        self._reports[report.branch.name] = report
        self._pumps.adopt()
        self._pumps.look_again()

    def _branch_state(self, name: str | None) -> BranchState:
        branch = self._session.current if name is None else self._session.branch(name)
        return branch.state

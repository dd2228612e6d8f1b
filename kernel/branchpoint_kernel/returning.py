"""What a new kernel says of what earlier ones left in its notebook's session. Said once."""

import time
from contextlib import suppress
from pathlib import Path

from branchpoint_kernel.bundles import Bundle, plain
from branchpoint_kernel.image_rendering import start_lines
from branchpoint_kernel.pause_rendering import at
from branchpoint_kernel.rendering import Line, note
from branchpoint_vmruntime.borrowers import RESTARTED
from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.lineage import BranchState, Checkpoint, CheckpointId, CheckpointKind
from branchpoint_vmruntime.loan import Loan
from branchpoint_vmruntime.session import Session

# A kernel that is restarted comes back within seconds; it is another matter after that.
RESTARTED_WITHIN_S = 120.0
LINEAGE_SHOWN = "lineage-shown"
_ALONE = "what is done here is not given back to it"


class Returning:
    """Offers the way back to what was saved, unless it was the user who has just restarted.

    `folder` is the session's own, `wanted` the key it was asked for by.
    """

    def __init__(self, session: Session, folder: Path, wanted: str) -> None:
        self.folder = folder
        self._restarted = folder / RESTARTED
        self._lineage_shown = folder / LINEAGE_SHOWN
        self._session = session
        self._lines: list[Line] = []
        if session.record.key != wanted:
            self._lines.append(_elsewhere())
        start = session.image.start()
        if start.refused or start.failed:
            # Also after a restart: that is how another manifest comes to be read.
            self._lines += start_lines(start)
        restarted = self._was_restarted()
        if session.loan is not None:
            self._lines += continued(session.loan)
        elif not restarted:
            self._lines += way_back(session)

    def note_restart(self) -> None:
        """The user restarts this kernel: the next one need not tell what they know."""
        self._restarted.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._restarted.touch()

    @property
    def lineage_was_shown(self) -> bool:
        """Whether a document may have the place of the lineage view of this session."""
        return self._lineage_shown.exists()

    def note_lineage_shown(self) -> None:
        """The lineage view has been shown: kernels that come later are to have it, too."""
        # Where that cannot be kept the view is there until this kernel ends.
        with suppress(OSError):
            self._lineage_shown.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lineage_shown.touch()

    def say(self) -> list[Bundle]:
        """What there is to say; nothing from the second time on."""
        lines, self._lines = self._lines, []
        return [plain(lines)] if lines else []

    def _was_restarted(self) -> bool:
        try:
            age_s = time.time() - self._restarted.stat().st_mtime
        except FileNotFoundError:
            return False
        self._restarted.unlink()
        # A clock that was set back does not make what was long ago recent.
        return abs(age_s) < RESTARTED_WITHIN_S


def continued(loan: Loan) -> list[Line]:
    """Whose branch a notebook continues; or, once, that its own notebook has gone on with it."""
    of = Path(loan.lender).name or "another notebook"
    if loan.lent:
        where = "from where it has come to" if loan.resumes else "as it was opened"
        back = "shut this kernel down, and it is there again"
        return [note("↪", f"this is {loan.branch} of {of}", where, back)]
    if loan.parted:
        state = "from its own last state" if loan.resumes else "as it was opened"
        own = f"this notebook carries on {state}"
        if loan.unanswered:
            return [note("⚠", f"{of} was too busy to lend {loan.branch} again", own, _ALONE)]
        return [note("⚠", f"{of} has gone on with {loan.branch} by itself since", own)]
    return []


def way_back(session: Session) -> list[Line]:
    """What carries on from what earlier kernels saved; nothing if they saved nothing."""
    points = {point.id: point for point in session.checkpoints()}
    branch = _last_left(session, points)
    # Where fresh machines start, this one has started too.
    baked = {it.id for it in session.image.start().chain}
    saved = [it for it in points.values() if it.kind is CheckpointKind.USER and it.id not in baked]
    ways = ()
    if branch is not None:
        head = points[branch.record.head]
        ways += (f"%switch {branch.name} carries on from {at(head)}",)
    if saved:
        ways += (f"%rollback {saved[-1].label} goes back to that checkpoint",)
    if not ways:
        return []
    return [note("↩", "this notebook was here before", *ways, "%checkpoints lists what there is")]


def _last_left(session: Session, points: dict[CheckpointId, Checkpoint]) -> Branch | None:
    """The branch without a machine that was saved last."""
    left = [
        branch
        for branch in session.branches()
        if branch.state in (BranchState.LOST, BranchState.PARKED, BranchState.PAUSED)
        and (point := points.get(branch.record.head)) is not None
        and point.kind is not CheckpointKind.BASE
    ]
    # As they came to be, whatever the clock said then.
    order = {point: number for number, point in enumerate(points)}
    return max(left, key=lambda it: order[it.record.head], default=None)


def _elsewhere() -> Line:
    return note(
        "⚠",
        "another kernel has this notebook's session open",
        "this one has a session of its own and sees none of that one's branches and checkpoints",
    )

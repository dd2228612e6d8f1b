"""A session that has lent its branch ridge, and what becomes of both."""

from dataclasses import replace

from tests.unit.lineage.facts import a_branch, a_checkpoint, a_session

from branchpoint_vmruntime.borrowers import AWAITED
from branchpoint_vmruntime.borrowing import lend_on_record
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchName, BranchRecord, BranchState, SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal

LENDER = a_session("lender", "/notes/demo.ipynb")


KEY = "/notes/demo-ridge.ipynb"


def ridge(journal: Journal) -> BranchRecord:
    """The lender's branch as it is now."""
    (found,) = journal.branches(LENDER.id)
    return found


def works_in(journal: Journal, to: SessionRecord, saved: str, state: BranchState) -> None:
    """What a borrower's kernel leaves on record that was on ridge."""
    there = a_checkpoint(saved, ridge(journal).head, session=to.id, branch="ridge")
    journal.add_checkpoint(there, advance=None)
    journal.put_branch(a_branch("ridge", saved, session=to.id, state=state, index=2))
    journal.put_session(replace(to, current=BranchName("ridge")))


async def worked_in(home: Home, journal: Journal) -> SessionRecord:
    """A borrower of ridge that has saved c2 there, and was closed."""
    to = await lend_on_record(home, "lender", "ridge", KEY)
    works_in(journal, to, "c2", BranchState.PAUSED)
    closed(home, to)
    return to


def closed(home: Home, to: SessionRecord) -> None:
    """Nobody waits for it to be opened any more."""
    (home.session(to.id) / AWAITED).unlink()


def now(journal: Journal, to: SessionRecord) -> SessionRecord:
    """A session as it is on record."""
    found = journal.session(to.id)
    assert found is not None
    return found


def has_files(home: Home, session: str, *names: str) -> None:
    """Folders of checkpoints, with something in them."""
    for name in names:
        (home.layers / session / name).mkdir(parents=True)
        (home.layers / session / name / "memory").write_bytes(b"x" * 5000)


def files(home: Home) -> set[str]:
    """The checkpoints that have files."""
    return {it.name for it in home.layers.glob("*/*")}

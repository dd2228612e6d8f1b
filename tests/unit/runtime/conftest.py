"""What several modules of tests here begin with."""

from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.lineage.facts import a_base, a_branch, a_checkpoint
from tests.unit.runtime.leftovers import a_home
from tests.unit.runtime.lent import LENDER
from tests.unit.runtime.served import HeldRuns

from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.results import RunResult


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> HeldRuns:
    """What is run in any branch."""
    held = HeldRuns()

    async def run(branch: OwnedBranch, code: str, *, timeout_s: float) -> RunResult:
        return await held.run(branch, code, timeout_s=timeout_s)

    monkeypatch.setattr(OwnedBranch, "run", run)
    return held


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """One in which nothing is."""
    return a_home(tmp_path)


@pytest.fixture
def journal(home: Home) -> Generator[Journal]:
    """A lender that is closed, with ridge paused at c1."""
    with closing(Journal.open(home.database)) as opened:
        opened.add_session(LENDER)
        opened.add_checkpoint(a_base(), advance=None)
        opened.add_checkpoint(a_checkpoint("c1", session="lender", branch="ridge"), advance=None)
        ridge = a_branch("ridge", "c1", session="lender", state=BranchState.PAUSED, index=2)
        opened.put_branch(ridge)
        yield opened

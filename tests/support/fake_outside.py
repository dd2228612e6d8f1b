"""The real edge of a session whose machines are not there: its ledger and files in a folder."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from tests.support.fake_streams import FakeChannel

from branchpoint_vmruntime.branch_seam import KernelChannel
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.outside.facts import Outfit, OutsideSpec
from branchpoint_vmruntime.outside.outside import Outside, View, open_outside


class BranchWithStreams(Protocol):
    """What is used of a branch that is made up."""

    @property
    def streams(self) -> FakeChannel: ...
    @property
    def kernel(self) -> KernelChannel: ...


class FakeMachine:
    """A machine as its session's edge sees it; keeps what it was fitted out with."""

    def __init__(self, branch: BranchWithStreams) -> None:
        self.streams = branch.streams
        self.incarnation = branch.kernel.incarnation
        self.outfits: list[Outfit] = []
        self._branch = branch

    @property
    def alive(self) -> bool:
        """Whether its branch still runs in it."""
        return incarnation_of(self._branch) == self.incarnation

    async def outfit(self, outfit: Outfit, *, timeout_s: float) -> None:
        """Keep it."""
        self.outfits.append(outfit)


def incarnation_of(branch: BranchWithStreams) -> str:
    """That of its present machine, nothing if it has none."""
    try:
        return branch.kernel.incarnation
    except BranchpointError:
        return ""


@asynccontextmanager
async def edge_in(
    folder: Path, ledger: Ledger, view: View, spec: OutsideSpec | None = None
) -> AsyncGenerator[Outside]:
    """An edge that keeps its files in a folder; without a spec nothing may leave."""
    async with open_outside(
        spec or OutsideSpec(), ledger=ledger, view=view, folder=folder, files_from=folder
    ) as outside:
        yield outside

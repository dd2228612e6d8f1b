"""The implementations of `session.Session`, both over machines that are made up."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import cast

import pytest
from tests.support import fake_session
from tests.support.fake_branch import FakeBranch, FakeChannel
from tests.support.fake_session import FakeSession
from tests.support.fake_workshop import office
from tests.support.guest_kernel import GuestKernel

from branchpoint_vmruntime.branch_seam import WakeReason
from branchpoint_vmruntime.budget import Budgets
from branchpoint_vmruntime.lineage import CheckpointId
from branchpoint_vmruntime.session import Session


class NoKernel:
    """Stands in for a kernel that nobody asks anything."""

    alive = True

    async def close(self) -> None:
        """Nothing to end."""


class QuietBranch(FakeBranch):
    """A branch of the fake session without the kernel behind it."""

    async def wake(self, head: CheckpointId, saved: str | None, reason: WakeReason) -> None:
        """Live from there, at once."""
        self.begin(FakeChannel(cast("GuestKernel", NoKernel()), token_hex(8)), head, reason)

    async def save(self) -> str:
        """Nothing is kept."""
        return ""

    async def come_to_rest(self) -> None:
        """It is."""


@asynccontextmanager
async def owned(folder: Path) -> AsyncGenerator[Session]:
    """The runtime's own."""
    async with office(folder, budgets=Budgets(machines=65)) as it:
        yield it.session


@asynccontextmanager
async def fake(_folder: Path) -> AsyncGenerator[Session]:
    """The double the kernel is tested with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake_session, "FakeBranch", QuietBranch)
        async with FakeSession() as session:
            yield session


IMPLEMENTATIONS = (owned, fake)

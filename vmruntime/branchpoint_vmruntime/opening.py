"""Opens a session: its first machine awake, or one carried on with, and none left at its end."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from branchpoint_vmruntime.borrowers import Borrowers, NoBorrowers
from branchpoint_vmruntime.budget import Budgets, IdlePause
from branchpoint_vmruntime.outside.outside import Outside
from branchpoint_vmruntime.owned_session import OwnedSession
from branchpoint_vmruntime.register import Register
from branchpoint_vmruntime.workshop import Workshop


@asynccontextmanager
async def open_session(
    register: Register,
    workshop: Workshop,
    outside: Outside,
    budgets: Budgets | None = None,
    idle: IdlePause | None = None,
    borrowers: Borrowers | None = None,
) -> AsyncGenerator[OwnedSession]:
    """A session with its first machine awake, or one that carries on; no machine outlives it."""
    limits = budgets or Budgets(), idle or IdlePause()
    session = OwnedSession(register, workshop, outside, *limits, borrowers or NoBorrowers())
    try:
        await session.start()
        yield session
    finally:
        await session.close()

"""Hears a session's witness of what is executing, and never waits for it longer than it may."""

import asyncio
import logging

from branchpoint_vmruntime.lineage import Moment
from branchpoint_vmruntime.session import Witness

log = logging.getLogger(__name__)

WITNESS_TIMEOUT_S = 5.0


async def hear(witness: Witness, branch: str) -> Moment:
    """What the witness says of a branch; if it fails or takes too long, that nothing is known."""
    try:
        async with asyncio.timeout(WITNESS_TIMEOUT_S):
            return await witness(branch)
    except Exception as error:
        # The user's checkpoint is worth more than the note of what was executing.
        log.warning("what executes on branch %s is not known: %s", branch, error, exc_info=error)
        return Moment()

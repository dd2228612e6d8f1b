"""Pictures are drawn in a thread, one after another: matplotlib's settings are global."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from branchpoint_kernel.bundles import Bundle

log = logging.getLogger(__name__)

# Two drawings at once would see each other's settings.
_DRAWING = asyncio.Lock()


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture by its MIME types, and what is to be said of them."""

    data: Bundle
    metadata: Bundle


async def in_turn(drawn: Callable[[], Picture], subject: str) -> Picture:
    """What is drawn of a subject, in a thread; if it cannot be, words that say so in its place."""
    try:
        async with _DRAWING:
            return await asyncio.to_thread(drawn)
    except Exception:
        log.exception("%s could not be drawn", subject)
        said = f"{subject} could not be drawn; the log of this kernel says why"
        return Picture({"text/plain": said}, {})

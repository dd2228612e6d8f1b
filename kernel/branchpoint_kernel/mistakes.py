"""What this kernel itself does wrong: the log has it whole, and whoever asked is told in words."""

import logging
from asyncio import TaskGroup
from collections.abc import Awaitable

from branchpoint_vmruntime.errors import BranchpointError

log = logging.getLogger(__name__)


def told_of(error: Exception, where: str) -> BranchpointError:
    """An error in words: a BranchpointError as it is, any other as a mistake of ours, logged.

    `where` says in the log what it came of.
    """
    if isinstance(error, BranchpointError):
        return error
    log_mistake(error, where)
    return BranchpointError(
        f"the kernel made a mistake: {type(error).__name__}: {error}",
        hint="the session is unharmed; the kernel's log has the details",
    )


def log_mistake(error: Exception, where: str) -> None:
    """Have the log tell of it whole. `where` says what it came of."""
    log.error("%s was not handled", where, exc_info=error)


def beside(
    tasks: TaskGroup, work: Awaitable[object], where: str, *, name: str | None = None
) -> None:
    """Begin what nobody waits for, as `unharmed` does it; `name` is its task's."""
    tasks.create_task(unharmed(work, where), name=name)


async def unharmed(work: Awaitable[object], where: str) -> None:
    """Do what nobody waits for: what goes wrong with it is logged, and harms nothing besides.

    A task of the session that raises ends the session, and every machine with it.
    """
    try:
        await work
    except BranchpointError as error:
        log.warning("%s came to nothing: %s", where, error)
    except Exception as error:
        log_mistake(error, where)

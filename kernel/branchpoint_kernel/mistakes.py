"""What this kernel itself does wrong: the log has it whole, and whoever asked is told in words."""

import logging

from branchpoint_vmruntime.errors import BranchpointError

log = logging.getLogger(__name__)


def told_of(error: Exception, where: str) -> BranchpointError:
    """An error in words: a BranchpointError as it is, any other as a mistake of ours, logged.

    `where` says in the log what it came of.
    """
    if isinstance(error, BranchpointError):
        return error
    log.error("%s was not handled", where, exc_info=error)
    return BranchpointError(
        f"the kernel made a mistake: {type(error).__name__}: {error}",
        hint="the session is unharmed; the kernel's log has the details",
    )

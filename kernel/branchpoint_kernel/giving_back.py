"""A notebook that continues another's branch saves it at its kernel's end, to be carried on with.

Jupyter waits 5 s for a kernel to end and then kills it; a server with our extension has it wait for
a minute. What is not saved by then is lost, and the branch stands on its last checkpoint.
"""

import logging
from dataclasses import replace

from branchpoint_kernel.messages import Channel, Message, Stamp
from branchpoint_kernel.pump import Pump
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.session import Session, nothing_runs

log = logging.getLogger(__name__)


async def save_at_end(session: Session) -> None:
    """Save the current branch of such a notebook with whatever runs in it, and end its machine.

    Nothing happens for any other session. A branch that cannot be saved is told of in the log.
    """
    if session.loan is None:
        return
    executes, session.executes = session.executes, nothing_runs
    try:
        async with session.turn():
            if session.current.state is BranchState.LIVE:
                await session.pause()
    except BranchpointError as error:
        log.warning("branch %s is not saved at its end: %s", session.current.name, error)
    finally:
        session.executes = executes


def first_question(stamp: Stamp, pump: Pump) -> Message:
    """What a kernel is asked to tell who it is.

    One that carries on with a cell answers on its shell channel only at the end of that.
    """
    asked = stamp.request("kernel_info_request", {})
    return asked if pump.carried is None else replace(asked, channel=Channel.CONTROL)

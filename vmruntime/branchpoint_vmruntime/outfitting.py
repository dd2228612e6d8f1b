"""Gives the user's processes in a machine their variables and files, after each waking."""

import logging
from hashlib import sha256

from branchpoint_vmruntime.errors import GuestRefusedError, GuestSilentError
from branchpoint_vmruntime.link import ControlLink
from branchpoint_vmruntime.outside.facts import Outfit

log = logging.getLogger(__name__)

KERNEL_PATIENCE_S = 5.0


async def fit_out(control: ControlLink, outfit: Outfit, *, timeout_s: float) -> None:
    """Have guestd put the files in place, then the kernel set the variables.

    Only files that are not there yet are sent. A kernel that is too busy to listen, or has no hook,
    is only noted: what is started later has the variables all the same.
    """
    environment = dict(outfit.environment)
    digests = {name: sha256(text.encode()).hexdigest() for name, text in outfit.files.items()}
    fields: dict[str, object] = {"environment": environment, "files": {}, "digests": digests}
    reply = await control.ask("outfit", fields, timeout_s=timeout_s)
    if lacking := {name: outfit.files[name] for name in reply["lacking"]}:
        fields = {"environment": {}, "files": lacking, "digests": digests}
        await control.ask("outfit", fields, timeout_s=timeout_s)
    if not environment:
        return
    fields = {"environment": environment, "timeout_s": KERNEL_PATIENCE_S}
    try:
        reply = await control.ask("environment", fields, timeout_s=KERNEL_PATIENCE_S)
    except (GuestSilentError, GuestRefusedError) as error:
        # Names alone: values are for the machine.
        log.warning("the kernel did not set %s: %s", ", ".join(sorted(environment)), error)
    else:
        if reply["environment"] is None:
            log.info("the kernel has no hook and keeps the variables it was started with")

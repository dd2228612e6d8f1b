"""What machines of one size on one image are bound to, on this host."""

from branchpoint_vmruntime.accelerator import Accelerator
from branchpoint_vmruntime.host import tsc_khz
from branchpoint_vmruntime.spec import MachineSize
from branchpoint_vmruntime.store import MachineFacts
from branchpoint_vmruntime.tools import Tools

PROTOCOL = 4


def machine_facts(
    tools: Tools, accelerator: Accelerator, size: MachineSize, image: str
) -> MachineFacts:
    """As they are here. `image` is the digest of its recipe. Takes a tenth of a second at first."""
    return MachineFacts(
        qemu=tools.qemu.build,
        accelerator=accelerator.name,
        # FSRM is off as well, but whatever was saved before that was said never had it.
        cpu="max,erms=off" if accelerator.name == "tcg" else "host",
        memory_mib=size.memory_mib,
        vcpus=size.vcpus,
        image=image,
        protocol=PROTOCOL,
        tsc_khz=tsc_khz(),
    )

"""Whether a machine saved elsewhere can be loaded on this host."""

from branchpoint_vmruntime.accelerator import choose_accelerator
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.host_facts import machine_facts
from branchpoint_vmruntime.image.guest_image import GuestImage
from branchpoint_vmruntime.spec import MachineSize
from branchpoint_vmruntime.store import MachineFacts
from branchpoint_vmruntime.tools import find_tools


def facts_here(home: Home, image: GuestImage, saved: MachineFacts) -> MachineFacts:
    """What a machine of that size on that image would be bound to here.

    May boot a tiny guest, to find out what machines run under: not for the event loop's thread.
    """
    tools = find_tools(home)
    accelerator = choose_accelerator(home, tools, image)
    size = MachineSize(memory_mib=saved.memory_mib, vcpus=saved.vcpus)
    return machine_facts(tools, accelerator, size, image.digest)

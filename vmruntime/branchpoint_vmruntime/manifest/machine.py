"""What a manifest says of machines: their size, the kernel in them, what they take together."""

import re

import yaml

from branchpoint_vmruntime.manifest.nodes import Nodes, as_found, quoted
from branchpoint_vmruntime.spec import MachineSize

_AMOUNT = r"(?P<amount>[0-9]{1,6}(?:\.[0-9]{1,6})?)(?P<unit>gb|mb)"
_MEMORY = re.compile(_AMOUNT, re.IGNORECASE)
_SIZE = re.compile(rf"(?P<vcpus>[0-9]{{1,6}})vcpu-{_AMOUNT}", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]{1,6}")
_MEMORY_MIB = range(256, 65536 + 1)
_VCPUS = range(1, 16 + 1)


def read_size(nodes: Nodes, node: yaml.Node) -> MachineSize:
    """`1vcpu-2gb`, or memory and vcpus."""
    if isinstance(node, yaml.MappingNode):
        fields = nodes.fields(node, ("memory", "vcpus"))
        default = MachineSize()
        memory = read_memory(nodes, fields["memory"]) if "memory" in fields else default.memory_mib
        vcpus = read_number(nodes, fields["vcpus"]) if "vcpus" in fields else default.vcpus
        return _checked(nodes, node, memory, vcpus)
    text = nodes.text(node)
    match = _SIZE.fullmatch(text)
    if match is None:
        what = "a machine is a name such as 1vcpu-1gb, or memory and vcpus"
        nodes.refuse(node, f"{quoted(text)}: {what}")
    return _checked(nodes, node, _mib(match["amount"], match["unit"]), int(match["vcpus"]))


def read_argv(nodes: Nodes, node: yaml.Node) -> tuple[str, ...]:
    """The kernel's command with its arguments."""
    if not isinstance(node, yaml.SequenceNode):
        what = "kernel is a list: the command and its arguments"
        nodes.refuse(node, f"{what}; there is {as_found(node)}")
    argv = tuple(nodes.text(part) for part in node.value)
    if not any("{connection_file}" in part for part in argv):
        nodes.refuse(node, "the kernel's command must have {connection_file} among its arguments")
    return argv


def read_memory(nodes: Nodes, node: yaml.Node) -> int:
    """`1gb` or `1536mb`, in MiB."""
    text = nodes.text(node)
    match = _MEMORY.fullmatch(text)
    if match is None:
        nodes.refuse(node, f"{quoted(text)}: memory is written like 1gb or 1536mb")
    return _mib(match["amount"], match["unit"])


def read_number(nodes: Nodes, node: yaml.Node) -> int:
    """A whole number of at most six digits."""
    text = nodes.text(node)
    if not _NUMBER.fullmatch(text):
        nodes.refuse(node, f"{quoted(text)} is not a whole number such as 2")
    return int(text)


def _checked(nodes: Nodes, node: yaml.Node, memory_mib: int, vcpus: int) -> MachineSize:
    if memory_mib not in _MEMORY_MIB:
        least, most = _MEMORY_MIB[0], _MEMORY_MIB[-1]
        nodes.refuse(node, f"memory must be from {least} MB to {most} MB, not {memory_mib} MB")
    if vcpus not in _VCPUS:
        nodes.refuse(node, f"vcpus must be from {_VCPUS[0]} to {_VCPUS[-1]}, not {vcpus}")
    return MachineSize(memory_mib=memory_mib, vcpus=vcpus)


def _mib(number: str, unit: str) -> int:
    return round(float(number) * (1024 if unit.lower() == "gb" else 1))

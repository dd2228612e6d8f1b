"""What a notebook may ask of its machine: `branchpoint.yaml`, read and checked."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import yaml

from branchpoint_vmruntime.budget import Budgets
from branchpoint_vmruntime.errors import ManifestError
from branchpoint_vmruntime.foundation import KERNEL_ARGV
from branchpoint_vmruntime.spec import MachineSize

FILE_NAME = "branchpoint.yaml"

_AMOUNT = r"(?P<amount>[0-9]{1,6}(?:\.[0-9]{1,6})?)(?P<unit>gb|mb)"
_MEMORY = re.compile(_AMOUNT, re.IGNORECASE)
_SIZE = re.compile(rf"(?P<vcpus>[0-9]{{1,6}})vcpu-{_AMOUNT}", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]{1,6}")
_NOTHING = "tag:yaml.org,2002:null"
_MEMORY_MIB = range(256, 65536 + 1)
_VCPUS = range(1, 16 + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A machine's size, the command of the Jupyter kernel in it, what all machines may take."""

    size: MachineSize = field(default_factory=MachineSize)
    kernel_argv: tuple[str, ...] = KERNEL_ARGV
    budgets: Budgets = field(default_factory=Budgets)

    @classmethod
    def load(cls, path: Path | str) -> "Manifest":
        """Read a manifest.

        ManifestError naming file and line if it says something that cannot be.
        """
        file = Path(path)
        try:
            text = file.read_text("utf-8")
        except OSError as error:
            raise ManifestError(f"{file} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ManifestError(f"{file} cannot be read: it is not UTF-8 text") from error
        return cls.parse(text, name=str(file))

    @classmethod
    def beside(cls, folder: Path) -> "Manifest":
        """The manifest in a folder; the default one if there is none."""
        file = folder / FILE_NAME
        return cls.load(file) if file.exists() else cls()

    @classmethod
    def parse(cls, text: str, *, name: str = FILE_NAME) -> "Manifest":
        """A manifest from its text.

        >>> Manifest.parse("machine: 1vcpu-2gb").size
        MachineSize(memory_mib=2048, vcpus=1)
        """
        return _Reader(name).manifest(text)


class _Reader:
    """Walks the YAML nodes, which know their lines, unlike the values made from them."""

    def __init__(self, name: str) -> None:
        self._name = name

    def manifest(self, text: str) -> Manifest:
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            raise ManifestError(self._not_yaml(error)) from error
        if root is None or root.tag == _NOTHING:
            return Manifest()
        fields = self._fields(root, ("machine", "kernel", "budgets"))
        default = Manifest()
        size = self._size(fields["machine"]) if "machine" in fields else default.size
        argv = self._argv(fields["kernel"]) if "kernel" in fields else default.kernel_argv
        budgets = self._budgets(fields["budgets"]) if "budgets" in fields else default.budgets
        return Manifest(size=size, kernel_argv=argv, budgets=budgets)

    def _budgets(self, node: yaml.Node) -> Budgets:
        fields = self._fields(node, ("memory", "machines"))
        memory = self._memory(fields["memory"]) << 20 if "memory" in fields else None
        machines = self._number(fields["machines"]) if "machines" in fields else None
        if machines == 0:
            self._refuse(fields["machines"], "a session has at least one machine")
        return Budgets(memory_bytes=memory, machines=machines)

    def _size(self, node: yaml.Node) -> MachineSize:
        if isinstance(node, yaml.MappingNode):
            fields = self._fields(node, ("memory", "vcpus"))
            memory = (
                self._memory(fields["memory"]) if "memory" in fields else MachineSize().memory_mib
            )
            vcpus = self._number(fields["vcpus"]) if "vcpus" in fields else MachineSize().vcpus
            return self._checked(node, memory, vcpus)
        match = _SIZE.fullmatch(self._text(node))
        if match is None:
            self._refuse(node, "a machine is a name such as 1vcpu-1gb, or memory and vcpus")
        return self._checked(node, _mib(match["amount"], match["unit"]), int(match["vcpus"]))

    def _checked(self, node: yaml.Node, memory_mib: int, vcpus: int) -> MachineSize:
        if memory_mib not in _MEMORY_MIB:
            self._refuse(node, f"memory must be from {_MEMORY_MIB[0]} MB to {_MEMORY_MIB[-1]} MB")
        if vcpus not in _VCPUS:
            self._refuse(node, f"vcpus must be from {_VCPUS[0]} to {_VCPUS[-1]}")
        return MachineSize(memory_mib=memory_mib, vcpus=vcpus)

    def _memory(self, node: yaml.Node) -> int:
        match = _MEMORY.fullmatch(self._text(node))
        if match is None:
            self._refuse(node, "memory is written like 1gb or 1536mb")
        return _mib(match["amount"], match["unit"])

    def _number(self, node: yaml.Node) -> int:
        text = self._text(node)
        if not _NUMBER.fullmatch(text):
            self._refuse(node, f"{text!r} is not a whole number")
        return int(text)

    def _argv(self, node: yaml.Node) -> tuple[str, ...]:
        if not isinstance(node, yaml.SequenceNode):
            self._refuse(node, "kernel is a list: the command and its arguments")
        argv = tuple(self._text(part) for part in node.value)
        if not any("{connection_file}" in part for part in argv):
            self._refuse(
                node, "the kernel's command must have {connection_file} among its arguments"
            )
        return argv

    def _fields(self, node: yaml.Node, known: tuple[str, ...]) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            self._refuse(node, f"expected fields: {', '.join(known)}")
        fields: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = self._text(key)
            if name not in known:
                self._refuse(key, f"{name!r} is not a field here; there is: {', '.join(known)}")
            if name in fields:
                self._refuse(key, f"{name!r} is given twice")
            fields[name] = value
        return fields

    def _text(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self._refuse(node, "expected a plain value")
        return str(node.value)

    def _not_yaml(self, error: yaml.YAMLError) -> str:
        # What YAML could not read at all, such as a control character, has no line.
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        place = self._name if mark is None else f"{self._name}, line {mark.line + 1}"
        return f"{place}: not YAML: {getattr(error, 'problem', None) or error}"

    def _refuse(self, node: yaml.Node, why: str) -> NoReturn:
        raise ManifestError(f"{self._name}, line {node.start_mark.line + 1}: {why}")


def _mib(number: str, unit: str) -> int:
    return round(float(number) * (1024 if unit.lower() == "gb" else 1))

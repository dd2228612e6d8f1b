"""Walks YAML nodes, which know their lines, unlike the values made from them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn, TypeVar

import yaml

from branchpoint_vmruntime.errors import ManifestError, UsageError

Value = TypeVar("Value")

NOTHING = "tag:yaml.org,2002:null"
Fields = Mapping[str, yaml.Node]
_MOST_QUOTED = 40
_FLAGS = {"true": True, "false": False, "yes": True, "no": False}


def quoted(text: str) -> str:
    """What was refused, as an error repeats it: in full unless it is long.

    >>> quoted("two"), quoted("9" * 100)
    ("'two'", "'9999999999999999999999999999999999999999…'")
    """
    return repr(text if len(text) <= _MOST_QUOTED else f"{text[:_MOST_QUOTED]}…")


class Nodes:
    """Reads the nodes of one file. What cannot be is a ManifestError with file and line.

    `lines_before` are those of the file before the text that is read.
    """

    def __init__(self, name: str, *, lines_before: int = 0) -> None:
        self._name = name
        self._first = lines_before + 1

    def root(self, text: str) -> yaml.Node | None:
        """The node of all that a text says; None if it says nothing."""
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            raise ManifestError(self._not_yaml(text, error)) from error
        except RecursionError as error:
            raise ManifestError(
                f"{self._name}, line {self._first}: nested too deep to be read"
            ) from error
        return None if root is None or root.tag == NOTHING else root

    def fields(self, node: yaml.Node, known: tuple[str, ...]) -> Fields:
        """The fields of a mapping that has no others than those known."""
        if not isinstance(node, yaml.MappingNode):
            self.refuse(node, f"expected fields: {', '.join(known)}; there is {as_found(node)}")
        fields: dict[str, yaml.Node] = {}
        for key, name, value in self.named(node):
            if name not in known:
                self.refuse(key, f"{name!r} is not a field here; there is: {', '.join(known)}")
            fields[name] = value
        return fields

    def named(self, node: yaml.Node) -> list[tuple[yaml.Node, str, yaml.Node]]:
        """Each key of a mapping, as a node and as text, with its value."""
        if not isinstance(node, yaml.MappingNode):
            self.refuse(node, "expected names, each with what is said of it")
        named: list[tuple[yaml.Node, str, yaml.Node]] = []
        for key, value in node.value:
            name = self.text(key)
            if any(name == other for _, other, _ in named):
                self.refuse(key, f"{name!r} is given twice")
            named.append((key, name, value))
        return named

    def one_or_more(self, node: yaml.Node) -> list[yaml.Node]:
        """The parts of a list; what is no list is its only part."""
        return list(node.value) if isinstance(node, yaml.SequenceNode) else [node]

    def text(self, node: yaml.Node) -> str:
        """A plain value as it is written."""
        if not isinstance(node, yaml.ScalarNode):
            self.refuse(node, f"expected a plain value; there is {as_found(node)}")
        return str(node.value)

    def flag(self, node: yaml.Node) -> bool:
        """True or false."""
        value = _FLAGS.get(self.text(node).lower())
        if value is None:
            self.refuse(node, f"{self.text(node)!r} is neither true nor false")
        return value

    def parsed(self, node: yaml.Node, parse: Callable[[str], Value]) -> Value:
        """What `parse` makes of a plain value; its UsageError gets the line."""
        text = self.text(node)
        try:
            return parse(text)
        except UsageError as error:
            self.refuse(node, f"{error}; {error.hint}" if error.hint else str(error))

    def refuse(self, node: yaml.Node, why: str) -> NoReturn:
        """ManifestError that says why, and where the node stands."""
        raise ManifestError(f"{self._name}, line {node.start_mark.line + self._first}: {why}")

    def _not_yaml(self, text: str, error: yaml.YAMLError) -> str:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        # What YAML cannot read at all, such as a control character, has no mark but its place.
        before = text[: getattr(error, "position", 0)]
        line = before.count("\n") if mark is None else mark.line
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or error
        return f"{self._name}, line {line + self._first}: not YAML: {problem}"


# A field with the nodes of the file it is said in.
Said = tuple[Nodes, yaml.Node]


def text_of(file: Path, *, if_absent: str | None = None) -> str:
    """What a file says; ManifestError if that cannot be read, also if it is absent but may not."""
    try:
        return file.read_text("utf-8")
    except OSError as error:
        if isinstance(error, FileNotFoundError) and if_absent is not None:
            return if_absent
        raise ManifestError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ManifestError(
            f"{file} cannot be read: it is not UTF-8 text (byte {error.start})"
        ) from error


def as_found(node: yaml.Node) -> str:
    """What stands where something else should, for an error; for what is no secret."""
    if isinstance(node, yaml.ScalarNode):
        return "nothing" if node.tag == NOTHING else quoted(str(node.value))
    return "a list" if isinstance(node, yaml.SequenceNode) else "fields"

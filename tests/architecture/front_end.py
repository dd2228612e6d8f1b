"""What TypeScript says of the objects it is sent: its interfaces and unions, read as text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tests.architecture.house import ROOT

Kinds = frozenset[str]

_INTERFACE = re.compile(r"^export interface (\w+)(?: extends (\w+))? \{\n(.*?)^\}", re.M | re.S)
_ALIAS = re.compile(r"^export type (\w+) =\s+([^;{]+);", re.M)
_UNION = r"^export type {} =\n(.*?\}});"
_FIELD = re.compile(r"(\w+)(\??): ([^;]+)")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object: what it may be, and whether it may be left out."""

    kinds: Kinds
    optional: bool = False


class Module:
    """The types of one file of the front end, `name` below nbext/src."""

    def __init__(self, name: str) -> None:
        self._text = _COMMENT.sub("", (ROOT / "nbext" / "src" / name).read_text())

    @cached_property
    def interfaces(self) -> Mapping[str, Mapping[str, Field]]:
        """The interfaces that only hold data, by name, with the fields of what they extend."""
        found: dict[str, dict[str, Field]] = {}
        for name, base, body in _INTERFACE.findall(self._text):
            if "(" not in body:
                found[name] = found.get(base, {}) | self._fields(body)
        return found

    def union(self, name: str) -> Mapping[str, Mapping[str, Field]]:
        """The fields of each member of a union of objects, by the value of its `op`."""
        (body,) = re.findall(_UNION.format(name), self._text, re.M | re.S)
        members = [self._fields(member) for member in re.findall(r"\{ (.*?) \}", body)]
        return {_only(member.pop("op").kinds).strip("'"): member for member in members}

    @cached_property
    def _aliases(self) -> Mapping[str, str]:
        return dict(_ALIAS.findall(self._text))

    def _fields(self, body: str) -> dict[str, Field]:
        found = _FIELD.findall(body)
        return {name: Field(self._kinds(kind), bool(mark)) for name, mark, kind in found}

    def _kinds(self, kind: str) -> Kinds:
        options = [option for option in re.split(r"\s*\|\s*", kind.strip()) if option]
        if len(options) > 1:
            return Kinds().union(*(self._kinds(option) for option in options))
        (option,) = options
        return self._kinds(self._aliases[option]) if option in self._aliases else Kinds({option})


def _only(kinds: Kinds) -> str:
    (kind,) = kinds
    return kind

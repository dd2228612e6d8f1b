"""A magic's line taken apart into plain words and flags; what is wrong is said in words. Pure."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from branchpoint_kernel.magic import Magic, Takes
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.lineage.naming import check_branch_name


@dataclass(frozen=True, slots=True)
class Words:
    """A magic's arguments: the plain ones, and the flags with their values."""

    magic: Magic
    plain: tuple[str, ...]
    flags: MappingProxyType[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def refuse(self, message: str) -> UsageError:
        """A usage error that ends with what to type."""
        return refusal(self.magic, message)

    def at_most(self, count: int) -> None:
        """UsageError if there are more plain words."""
        if len(self.plain) > count:
            extra = " ".join(self.plain[count:])
            raise self.refuse(f"{self.magic.marked} does not know what to do with {extra!r}")

    def one_name(self) -> str:
        """The one plain word there is to be."""
        if not self.plain:
            raise self.refuse(f"{self.magic.marked} needs the name of a branch")
        self.at_most(1)
        return self.plain[0]


def refusal(magic: Magic, message: str) -> UsageError:
    """A usage error that ends with what to type."""
    return UsageError(message, hint=f"type {magic.usage}, or {magic.marked}? for more")


def take_apart(magic: Magic, line: str) -> Words:
    """The words of a magic's line; UsageError if quotes or flags are not as they have to be."""
    return _sort(magic, _split(magic, line))


def without_comment(line: str) -> str:
    """The line up to a `#` that stands alone or begins a word, outside quotes.

    >>> without_comment("a '# b' c#d # e")
    "a '# b' c#d "
    """
    quote = ""
    for at, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "#" and (at == 0 or line[at - 1].isspace()):
            return line[:at]
    return line


def check_name(magic: Magic, name: str) -> str:
    """The name as it is kept, if a branch may bear it."""
    try:
        return check_branch_name(name)
    except UsageError as error:
        raise refusal(magic, str(error)) from None


def comma_list(text: str) -> tuple[str, ...]:
    """The parts between commas, none of them empty."""
    return tuple(part for part in (piece.strip() for piece in text.split(",")) if part)


def _split(magic: Magic, line: str) -> list[str]:
    try:
        return shlex.split(without_comment(line))
    except ValueError:
        raise refusal(magic, f"the quotes in {line.strip()!r} do not match") from None


def _sort(magic: Magic, words: Sequence[str]) -> Words:
    plain: list[str] = []
    flags: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("--"):
            plain.append(word)
            continue
        flag, equals, value = word.partition("=")
        if flag == "--help":
            flags[flag] = ""
            continue
        if flag not in magic.flags:
            there = ", ".join(magic.flags) or "none"
            raise refusal(magic, f"{magic.marked} has no flag {flag}; there is: {there}")
        if magic.flags[flag] is not Takes.NOTHING and not equals:
            value = next(rest, "")
        if magic.flags[flag] is not Takes.NOTHING and (not value or value.startswith("--")):
            raise refusal(magic, f"{flag} needs a {magic.flags[flag].value} after it")
        flags[flag] = value
    return Words(magic, tuple(plain), MappingProxyType(flags))

"""Names for what the host itself is set up to use, `pip` and `apt`, as rules that let it out."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.image.apt import host_archives
from branchpoint_vmruntime.image.sources import debian_archives
from branchpoint_vmruntime.outside.facts import Rule
from branchpoint_vmruntime.outside.pip_group import pip_group, pip_places
from branchpoint_vmruntime.outside.registries import Group, GroupCredential, Place
from branchpoint_vmruntime.outside.rule_text import parse_allowed

__all__ = ["Expansion", "Group", "GroupCredential", "expand", "group_of", "groups", "named_places"]


def groups() -> Mapping[str, Callable[[], Group]]:
    """The groups by name. Each is read from the host's configuration when called.

    Calling one may take seconds, as it may ask a server: do it in a thread. UsageError if the host
    is not set up for it.
    """
    return {"pip": pip_group, "apt": _apt}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """Names of groups, and rules, as rules alone; and the groups that were among them."""

    rules: tuple[Rule, ...]
    groups: tuple[Group, ...] = ()


def expand(names: Sequence[str | Rule]) -> Expansion:
    """What to allow for `names`: groups, `HOST[:PORT]`, or rules. To be run in a thread.

    UsageError, with a near miss, if one is none of these.
    """
    known = groups()
    rules: list[Rule] = []
    found: list[Group] = []
    for name in names:
        allowed = parse_allowed(name) if isinstance(name, str) else name
        if isinstance(allowed, Rule):
            rules.append(allowed)
        else:
            found.append(known[allowed]())
            rules.extend(found[-1].rules)
    return Expansion(rules=tuple(dict.fromkeys(rules)), groups=tuple(found))


def group_of(host: str, port: int) -> str:
    """The group to allow for a host; empty if there is none. Read from the configuration once."""
    return _remembered().get((host, port), "")


def named_places() -> Mapping[tuple[str, int], str]:
    """The hosts and ports that the host's configuration names, and their groups.

    Nobody is asked, so that an index is among them, but not where it has its files.
    """
    found: dict[tuple[str, int], str] = {}
    for name, places in (("pip", pip_places), ("apt", _apt_places)):
        with suppress(UsageError, OSError):
            rules = [place.rule for place in places()]
            found |= {(rule.host, port): name for rule in rules for port in rule.ports}
    return found


_remembered = lru_cache(maxsize=1)(named_places)


def _apt_places() -> list[Place]:
    archives = [archive for kind in debian_archives(host_archives()) for archive in kind]
    return [place for one in archives if (place := Place.of(one.uri, "apt"))]


def _apt() -> Group:
    places = _apt_places()
    if not places:
        raise UsageError(
            "the host's apt configuration names no Debian archive that is reached by HTTP",
            hint="allow the hosts that you need by name",
        )
    return Group(
        name="apt",
        rules=tuple(dict.fromkeys(place.rule for place in places)),
        credentials=tuple(place.credential for place in places if place.credential),
    )

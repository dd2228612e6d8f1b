"""Names for what the host itself is set up to use, `pip` and `apt`, as rules that let it out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.image.apt import host_archives
from branchpoint_vmruntime.image.sources import debian_archives
from branchpoint_vmruntime.outside.facts import Rule
from branchpoint_vmruntime.outside.pip_group import pip_group
from branchpoint_vmruntime.outside.registries import Group, GroupCredential, Place
from branchpoint_vmruntime.outside.rule_text import parse_allowed

__all__ = ["Expansion", "Group", "GroupCredential", "expand", "groups"]


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


def _apt() -> Group:
    archives = [archive for kind in debian_archives(host_archives()) for archive in kind]
    places = [place for one in archives if (place := Place.of(one.uri, "apt"))]
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

"""What the machines of each branch may reach. Pure, in memory."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from branchpoint_vmruntime.errors import RefusedError, UsageError
from branchpoint_vmruntime.outside.facts import WEB_PORTS, Rule
from branchpoint_vmruntime.outside.names import (
    canonical_host,
    canonical_pattern,
    matches,
    with_port,
)

GroupOf = Callable[[str, int], str]


def in_no_group(_host: str, _port: int) -> str:
    """For where there are no groups."""
    return ""


class Policies:
    """The rules of each branch. A branch that was never told of has the initial ones.

    `group_of` names the group that a host and port belong to: then that is what to allow.
    """

    def __init__(self, initial: Sequence[Rule], group_of: GroupOf = in_no_group) -> None:
        self._initial = _canonical(initial)
        self._group_of = group_of
        self._rules: dict[str, tuple[Rule, ...]] = {}

    def rules(self, branch: str) -> tuple[Rule, ...]:
        """What the branch may reach."""
        return self._rules.get(branch, self._initial)

    def inherit(self, branch: str, parent: str | None) -> None:
        """Let a new branch begin with a copy of its parent's rules; of the initial ones if None."""
        self._rules[branch] = self._initial if parent is None else self.rules(parent)

    def allow(self, branch: str, rules: Sequence[Rule]) -> None:
        """Add rules to the branch's; UsageError if one names what can be no host."""
        self._rules[branch] = tuple(dict.fromkeys((*self.rules(branch), *_canonical(rules))))

    def deny(self, branch: str, host_or_group: str) -> tuple[Rule, ...]:
        """Take away the rules of a group, or for a host or pattern as it was allowed; those.

        With `HOST:PORT` the rest of the host's ports may still be reached.
        """
        pattern, port = _host_and_port(host_or_group)
        away: list[Rule] = []
        kept: list[Rule] = []
        for rule in self.rules(branch):
            is_meant = rule.group == host_or_group or rule.host == pattern
            taken = [it for it in rule.ports if is_meant and port in (None, it)]
            left = [it for it in rule.ports if it not in taken]
            away += [replace(rule, ports=tuple(taken))] if taken else []
            kept += [replace(rule, ports=tuple(left))] if left else []
        self._rules[branch] = tuple(kept)
        return tuple(away)

    def judge(self, branch: str, host: str, port: int, method: str | None) -> Rule:
        """The rule under which it may go out; RefusedError, with the line that would allow it.

        With `method` None it is not known yet: the answer then bears `methods` or `inspect` if it
        must be looked at further.
        """
        try:
            name = canonical_host(host)
        except UsageError as error:
            raise RefusedError(str(error)) from error
        of_host = [rule for rule in self.rules(branch) if matches(rule.host, name)]
        of_port = [rule for rule in of_host if port in rule.ports]
        if not of_port:
            others = f"; only port {_ports(of_host)} of it may" if of_host else ""
            raise RefusedError(
                f"{with_port(name, port)} may not be reached from branch {branch!r}{others}",
                hint=f"%egress allow {self._group_of(name, port) or _as_typed(name, port)}",
            )
        found = [rule for rule in of_port if _permits(rule, method)]
        if not found:
            known = ", ".join(sorted({word for rule in of_port for word in rule.methods}))
            raise RefusedError(
                f"{method} is not allowed to {with_port(name, port)} from branch {branch!r}; "
                f"only {known} is",
                hint=f"%egress allow {_as_typed(name, port)} --method {method}",
            )
        return _widest(found, name)


def _host_and_port(text: str) -> tuple[str, int | None]:
    """The pattern and port of what was typed; no pattern if it is neither host nor pattern."""
    match = re.fullmatch(r"(.+):([0-9]{1,5})", text)
    # An address of the newer kind has colons of its own, and a port only after a bracket.
    if match and (":" not in match[1] or match[1].endswith("]")):
        text = match[1]
    else:
        match = None
    try:
        return canonical_pattern(text), int(match[2]) if match else None
    except UsageError:
        return "", None


def _permits(rule: Rule, method: str | None) -> bool:
    return method is None or not rule.methods or method in rule.methods


def _widest(rules: Sequence[Rule], name: str) -> Rule:
    """What several rules allow together: the most permissive, looked into if one wants that."""
    first = min(rules, key=lambda rule: (bool(rule.methods), rule.host != name, not rule.group))
    return replace(
        first,
        private=any(rule.private for rule in rules),
        inspect=any(rule.inspect for rule in rules),
    )


def _canonical(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    spelt = (
        replace(
            rule,
            host=canonical_pattern(rule.host),
            methods=tuple(method.upper() for method in rule.methods),
        )
        for rule in rules
    )
    return tuple(dict.fromkeys(spelt))


def _ports(rules: Sequence[Rule]) -> str:
    return ", ".join(map(str, sorted({port for rule in rules for port in rule.ports})))


def _as_typed(name: str, port: int) -> str:
    # A word alone would be taken for the name of a group.
    if port in WEB_PORTS and ("." in name or ":" in name):
        return f"[{name}]" if ":" in name else name
    return with_port(name, port)

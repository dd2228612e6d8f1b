"""From the words of the outside world's magics to their commands. Pure."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from branchpoint_kernel.commands import (
    AddSecret,
    Allow,
    Command,
    Deny,
    Forward,
    Get,
    Put,
    RaiseLimit,
    RemoveSecret,
    SaveCosts,
    Settle,
    ShowCosts,
    ShowEgress,
    ShowForwards,
    ShowLedger,
    ShowSecrets,
    StopForward,
)
from branchpoint_kernel.words import Words, comma_list
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.outside.facts import Rule, SecretSource
from branchpoint_vmruntime.outside.rule_text import parse_allowed, parse_method, parse_port

ALL_BRANCHES = "all"
_EVERYTHING = frozenset({"all", "any", "*"})
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _egress(words: Words, _body: str) -> Command:
    branch = words.flags.get("--branch")
    if not words.plain:
        if narrowing := [flag for flag in words.flags if flag != "--branch"]:
            raise words.refuse(f"{narrowing[0]} says how to allow a host, and none is named")
        return ShowEgress(branch)
    action, *names = words.plain
    if action not in words.magic.actions:
        raise words.refuse(f"%egress is followed by allow or deny, not by {action!r}")
    if not names:
        raise words.refuse(f"%egress {action} needs the name of a host or a group")
    parts = tuple(dict.fromkeys(part for name in names for part in comma_list(name)))
    if action == "deny":
        if narrowing := [flag for flag in words.flags if flag != "--branch"]:
            raise words.refuse(f"%egress deny takes a name away whole, without {narrowing[0]}")
        return Deny(names=parts, branch=branch)
    return Allow(names=tuple(_opened(words, part) for part in parts), branch=branch)


def _opened(words: Words, text: str) -> str | Rule:
    """A group, or the rule that a name becomes with what the flags say."""
    if text.lower() in _EVERYTHING:
        raise words.refuse("there is no opening everything: name the hosts that are needed")
    try:
        opened = parse_allowed(text)
        if isinstance(opened, str):
            return _unnarrowed(words, opened)
        if ports := words.flags.get("--port"):
            opened = replace(opened, ports=tuple(map(parse_port, comma_list(ports))))
        if methods := words.flags.get("--method"):
            opened = replace(opened, methods=tuple(map(parse_method, comma_list(methods))))
    except UsageError as error:
        raise UsageError(str(error), hint=error.hint or words.refuse("").hint) from None
    return replace(opened, private="--private" in words.flags, inspect="--inspect" in words.flags)


def _unnarrowed(words: Words, group: str) -> str:
    for flag in words.flags:
        if flag != "--branch":
            raise words.refuse(f"{group} is a group: it takes no {flag}")
    return group


def _port(words: Words, text: str) -> int:
    try:
        return parse_port(text)
    except UsageError as error:
        raise words.refuse(str(error)) from None


def _secrets(words: Words, _body: str) -> Command:
    if not words.plain:
        if words.flags:
            raise words.refuse(f"{next(iter(words.flags))} belongs to a secret, and none is named")
        return ShowSecrets()
    action, *names = words.plain
    if action not in words.magic.actions:
        raise words.refuse(f"%secrets is followed by add or remove, not by {action!r}")
    words.at_most(2)
    if not names or not _VARIABLE.fullmatch(names[0]):
        named = f", not {names[0]!r}" if names else ""
        raise words.refuse(f"%secrets {action} needs a name that a variable can have{named}")
    if action == "remove":
        if words.flags:
            raise words.refuse(f"%secrets remove takes no {next(iter(words.flags))}")
        return RemoveSecret(names[0])
    return _added(words, names[0])


def _added(words: Words, name: str) -> Command:
    hosts = comma_list(words.flags.get("--host", ""))
    if not hosts:
        raise words.refuse(f"a secret is bound to a host: %secrets add {name} --host HOST")
    header = words.flags.get("--header")
    if header is not None and header != "none" and ("{}" not in header or ":" not in header):
        raise words.refuse(f"a header is given as 'Name: {{}}' or none, not {header!r}")
    source = words.flags.get("--from", "")
    return AddSecret(
        name=name,
        hosts=hosts,
        header="" if header == "none" else header,
        source=_source(words, source),
        asks=source == "prompt",
    )


def _source(words: Words, text: str) -> SecretSource | None:
    kind, colon, place = text.partition(":")
    match kind:
        case "" | "prompt" if not colon:
            return None
        case "env" if place:
            return SecretSource(variable=place)
        case "file" if place:
            return SecretSource(file=Path(place))
        case _:
            raise words.refuse(
                "a secret comes from env:VARIABLE, file:PATH or prompt; it is not typed into a cell"
            )


def _ledger(words: Words, _body: str) -> Command:
    words.at_most(0)
    settling = [flag for flag in ("--accept", "--retry") if flag in words.flags]
    if not settling:
        return ShowLedger(
            since=words.flags.get("--since"),
            branch=words.flags.get("--branch"),
            whole="--all" in words.flags,
        )
    if len(words.flags) > 1:
        raise words.refuse(f"{settling[0]} KEY stands alone")
    return Settle(key=words.flags[settling[0]], took_place=settling[0] == "--accept")


def _costs(words: Words, _body: str) -> Command:
    words.at_most(0)
    if "--raise" not in words.flags:
        return _shown_or_saved(words)
    if len(words.flags) > 1:
        raise words.refuse("--raise NAME=VALUE stands alone")
    name, equals, value = words.flags["--raise"].partition("=")
    if not equals or not name.strip() or not value.strip():
        raise words.refuse("--raise takes NAME=VALUE, such as tokens=400000")
    return RaiseLimit(name=name.strip(), value=value.strip())


def _shown_or_saved(words: Words) -> Command:
    force = "--force" in words.flags
    if "--csv" in words.flags:
        return SaveCosts(file=words.flags["--csv"], force=force)
    if force:
        raise words.refuse("--force belongs to --csv FILE: it replaces whatever file is there")
    return ShowCosts()


def _forward(words: Words, _body: str) -> Command:
    words.at_most(1)
    if not words.plain:
        if words.flags:
            raise words.refuse("%forward needs the port of the machine to forward")
        return ShowForwards()
    port, branch = _port(words, words.plain[0]), words.flags.get("--branch")
    to = words.flags.get("--to")
    if "--stop" not in words.flags:
        return Forward(port=port, to=None if to is None else _port(words, to), branch=branch)
    if to is not None:
        raise words.refuse("--stop takes no --to: PORT is the machine's")
    return StopForward(port=port, branch=branch)


def _files(words: Words) -> tuple[str, ...]:
    if not words.plain:
        raise words.refuse(f"{words.magic.marked} needs the name of a file")
    return words.plain


def _put(words: Words, _body: str) -> Command:
    return Put(files=_files(words), to=words.flags.get("--to"))


def _get(words: Words, _body: str) -> Command:
    return Get(files=_files(words), to=words.flags.get("--to"))


OUTSIDE_READERS: MappingProxyType[str, Callable[[Words, str], Command]] = MappingProxyType(
    {
        "egress": _egress,
        "secrets": _secrets,
        "ledger": _ledger,
        "costs": _costs,
        "forward": _forward,
        "put": _put,
        "get": _get,
    }
)

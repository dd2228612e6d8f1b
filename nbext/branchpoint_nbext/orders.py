"""What pages ask for in the bodies of their requests: each field of its kind, or refused in words.

Pure. ACTIONS and QUESTIONS are all that a session can be asked for through the routes.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.lineage import SessionId
from branchpoint_vmruntime.session import MAX_FORKS

MAX_BODY_BYTES = 256 << 10
MAX_NAME = 200
MAX_NOTE = 10_000
MAX_PATH = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An operation that a session's owner is to be asked for, with its fields."""

    session: SessionId
    op: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchToOpen:
    """A branch that is to be continued in a notebook of its own.

    `path` is the session's notebook as the server names it, None to find it by the session's key.
    """

    session: SessionId
    branch: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a request: what takes its value, and whether it may be left out."""

    take: Callable[[str, object], Any]
    optional: bool = False


def a_text(most: int, *, least: int = 0) -> Callable[[str, object], str]:
    """Takes a text of so many characters."""

    def take(name: str, value: object) -> str:
        if not isinstance(value, str):
            raise UsageError(f"{name} has to be a text, not {_shown(value)}")
        if len(value) > most:
            raise UsageError(f"{name} has at most {most} characters, not {len(value)}")
        if len(value) < least:
            raise UsageError(f"{name} cannot be empty")
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise UsageError(f"{name} is not a text: there is half a character in it")
        return value

    return take


def a_flag(name: str, value: object) -> bool:
    """Takes true or false."""
    if not isinstance(value, bool):
        raise UsageError(f"{name} has to be true or false, not {_shown(value)}")
    return value


def a_count(name: str, value: object) -> int:
    """Takes a number of forks."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{name} has to be a whole number, not {_shown(value)}")
    if not 1 <= value <= MAX_FORKS:
        raise UsageError(f"{name} has to be from 1 to {MAX_FORKS}, not {_shown(value)}")
    return value


def some_names(name: str, value: object) -> list[str]:
    """Takes a list of names."""
    if not isinstance(value, list):
        raise UsageError(f"{name} has to be a list of texts, not {_shown(value)}")
    each = cast("list[object]", value)
    if len(each) > MAX_FORKS:
        raise UsageError(f"{name} has at most {MAX_FORKS} texts, not {len(each)}")
    return [_NAME(f"each of {name}", it) for it in each]


_NAME = a_text(MAX_NAME, least=1)
_LABEL = a_text(MAX_NAME)
_NOTE = a_text(MAX_NOTE)
_named, _perhaps_named = Field(_NAME), Field(_NAME, optional=True)

ACTIONS: Mapping[str, Mapping[str, Field]] = {
    "checkpoint": {
        "label": Field(_LABEL, optional=True),
        "note": Field(_NOTE, optional=True),
        "branch": _perhaps_named,
        "pinned": Field(a_flag, optional=True),
    },
    "fork": {
        "count": Field(a_count),
        "start": _perhaps_named,
        "names": Field(some_names, optional=True),
        "branch": _perhaps_named,
    },
    "rollback": {
        "target": _named,
        "branch": _perhaps_named,
        "safety": Field(a_flag, optional=True),
    },
    "switch": {"name": _named},
    "keep": {"name": _named},
    "drop": {"names": Field(some_names)},
    "pause": {"name": _perhaps_named},
    "resume": {"name": _perhaps_named},
    "pin": {"checkpoint": _named, "pinned": Field(a_flag)},
    "annotate": {
        "checkpoint": _named,
        "label": Field(_LABEL, optional=True),
        "note": Field(_NOTE, optional=True),
    },
}
QUESTIONS: Mapping[str, Mapping[str, Field]] = {
    "preview": {"target": _named},
    "diff": {"before": _named, "after": _perhaps_named},
    "cells": {"of": _named},
}
_OF_A_BRANCH = {
    "session": _named,
    "branch": _named,
    "path": Field(a_text(MAX_PATH, least=1), optional=True),
}


def order(body: bytes, known: Mapping[str, Mapping[str, Field]]) -> Order:
    """What a body asks a session for, of the operations in `known`; UsageError in words.

    >>> order(b'{"session": "7f3c", "op": "switch", "name": "ridge"}', ACTIONS).fields
    {'name': 'ridge'}
    """
    asked = _object(body)
    session = SessionId(_taken(asked, {"session": _named}, "session"))
    op = asked.get("op")
    if not isinstance(op, str) or op not in known:
        raise UsageError(
            f"{_shown(op)} cannot be asked for here; what can: {', '.join(known)}",
            hint="reload the page if branchpoint was updated since it was opened",
        )
    wanted = known[op]
    _refuse_others(asked, ("session", "op", *wanted))
    fields = {name: _taken(asked, wanted, name) for name in wanted if asked.get(name) is not None}
    for name, field in wanted.items():
        if not field.optional and name not in fields:
            raise UsageError(f"{op} needs {name}")
    return Order(session=session, op=op, fields=fields)


def branch_to_open(body: bytes) -> BranchToOpen:
    """The branch that a body asks to be opened; UsageError in words.

    >>> branch_to_open(b'{"session": "7f3c", "branch": "ridge"}').branch
    'ridge'
    """
    asked = _object(body)
    _refuse_others(asked, tuple(_OF_A_BRANCH))
    return BranchToOpen(
        session=SessionId(_taken(asked, _OF_A_BRANCH, "session")),
        branch=_taken(asked, _OF_A_BRANCH, "branch"),
        path=None if asked.get("path") is None else _taken(asked, _OF_A_BRANCH, "path"),
    )


def _object(body: bytes) -> Mapping[str, object]:
    if len(body) > MAX_BODY_BYTES:
        raise UsageError(f"that is more than the {MAX_BODY_BYTES >> 10} KiB that are read of it")
    # Too deep a nesting is a RecursionError.
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UsageError("what was sent is not JSON") from error
    if not isinstance(found, dict):
        raise UsageError(f"what was sent has to be a JSON object, not {_shown(found)}")
    return cast("dict[str, object]", found)


def _taken(asked: Mapping[str, object], known: Mapping[str, Field], name: str) -> Any:
    return known[name].take(name, asked.get(name))


def _refuse_others(asked: Mapping[str, object], known: tuple[str, ...]) -> None:
    if others := [name for name in asked if name not in known]:
        raise UsageError(
            f"nothing is known of a field {_shown(others[0])}; there are: {', '.join(known)}"
        )


def _shown(value: object) -> str:
    # Whatever came in is quoted, but not at any length.
    try:
        said = json.dumps(value)
    except RecursionError:
        return "that"
    return said if len(said) <= MAX_NAME else f"{said[:MAX_NAME]}…"

"""Which session a command is about: the one it names, or the only one that is open."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from branchpoint_vmruntime.errors import UnknownNameError, UsageError

HELP = "id, key or notebook of the session; by default the only one that is open"
_LEAST_OF_AN_ID = 4
_MOST_NAMED = 12


class Named(Protocol):
    """A session, as far as it can be named."""

    @property
    def id(self) -> str: ...
    @property
    def key(self) -> str: ...


SomeSession = TypeVar("SomeSession", bound=Named)


def the_only_one(sessions: Sequence[SomeSession]) -> SomeSession:
    """The session that is meant where none is named; UsageError unless there is just one."""
    if not sessions:
        raise UsageError(
            "no session is open", hint="open a notebook with the branchpoint kernel first"
        )
    if len(sessions) > 1:
        raise UsageError(
            f"{len(sessions)} sessions are open: {listed(sessions)}",
            hint="say which with --session",
        )
    return sessions[0]


def named(name: str, sessions: Sequence[SomeSession]) -> SomeSession:
    """The session of that key, of a notebook at that path, or whose id begins so."""
    path = os.path.normpath(Path(name).absolute())
    for wanted in (name, path):
        for session in sessions:
            if wanted in (session.key, session.id):
                return session
    found = [s for s in sessions if len(name) >= _LEAST_OF_AN_ID and s.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{name!r} could be any of: {listed(found)}", hint="give more of the id")
    raise UnknownNameError("session", name, tuple(f"{s.id} ({s.key})" for s in sessions))


def listed(sessions: Sequence[Named]) -> str:
    """The first of them, in words."""
    words = [f"{session.id} ({session.key})" for session in sessions]
    more = f", and {len(words) - _MOST_NAMED} more" if len(words) > _MOST_NAMED else ""
    return ", ".join(words[:_MOST_NAMED]) + more

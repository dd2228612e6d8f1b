"""Which session a command is about, the one it names or the only one open; and asking its owner."""

import argparse
import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Protocol, TypeVar

from branchpoint_cli.screen import say, standard_error
from branchpoint_kernel.rendering import came_back_lines, notice_lines
from branchpoint_vmruntime.claiming import as_key
from branchpoint_vmruntime.errors import UnknownNameError, UsageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.session_control import SessionControl, open_sessions

HELP = "id, key or notebook of the session; by default the only one that is open"
_LEAST_OF_AN_ID = 4
_MOST_NAMED = 12
_HOW_TO_BEGIN = "open a notebook with the branchpoint kernel, or: branchpoint create"


class Named(Protocol):
    """A session, as far as it can be named."""

    @property
    def id(self) -> str: ...
    @property
    def key(self) -> str: ...


SomeSession = TypeVar("SomeSession", bound=Named)
Answer = TypeVar("Answer")


def asked(
    options: argparse.Namespace, question: Callable[[SessionControl], Awaitable[Answer]]
) -> Answer:
    """What the owner of the session that is meant answers."""

    async def ask() -> Answer:
        async with asking(options.session) as control:
            return await question(control)

    return asyncio.run(ask())


@asynccontextmanager
async def asking(name: str | None) -> AsyncGenerator[SessionControl]:
    """The owner of the session of that name, to be asked for things; without one, the only one's.

    UnknownNameError if there is no such session, UsageError if nobody has it open.
    """
    home = Home.default()
    session = await meant(home, name)
    async with SessionControl(home.control(session.id)) as control:
        yield control
        say_notices(control)


def say_notices(control: SessionControl) -> None:
    """Beside what a command shows, such as JSON for a script."""
    lines = [*came_back_lines(control.came_back), *notice_lines(control.notices)]
    say(standard_error(), lines)


async def meant(home: Home, name: str | None) -> Named:
    """The open session of that name; without one, the only one."""
    there = await open_sessions(home)
    if name is None:
        return the_only_one(there)
    try:
        return named(name, there)
    except UnknownNameError:
        closed = named(name, on_record(home))
    raise UsageError(
        f"nobody has session {closed.id} ({closed.key}) open",
        hint=f"open its notebook, or carry it on: branchpoint resume --session {closed.id}",
    )


async def named_or_only(home: Home, name: str | None) -> tuple[SessionRecord, bool]:
    """The session of that name, open or not, and whether it is; without one, the only one.

    That is the only one that is open, or, if none is, the only one there is.
    """
    there = on_record(home)
    running = {session.id for session in await open_sessions(home)}
    if name is not None:
        session = named(name, there)
    elif not there:
        raise UsageError("there are no sessions yet", hint=_HOW_TO_BEGIN)
    elif running:
        session = the_only_one([one for one in there if one.id in running])
    elif len(there) == 1:
        session = there[0]
    else:
        newest = listed(list(reversed(there)))
        raise UsageError(
            f"no session is open; {len(there)} are on record, the newest first: {newest}",
            hint="say which with --session",
        )
    return session, session.id in running


def on_record(home: Home) -> list[SessionRecord]:
    """Every session of a home, open or not, oldest first."""
    if not home.database.exists():
        return []
    with Journal.read(home.database) as journal:
        return journal.sessions()


def the_only_one(sessions: Sequence[SomeSession]) -> SomeSession:
    """The session that is meant where none is named; UsageError unless there is just one."""
    if not sessions:
        raise UsageError(
            "no session is open",
            hint=f"{_HOW_TO_BEGIN}; or: branchpoint resume, with one that `branchpoint ls` shows",
        )
    if len(sessions) > 1:
        raise UsageError(
            f"{len(sessions)} sessions are open: {listed(sessions)}",
            hint="say which with --session",
        )
    return sessions[0]


def named(name: str, sessions: Sequence[SomeSession]) -> SomeSession:
    """The session of that key, of a notebook at that path, or whose id begins so.

    Or of the only notebook whose file is called that, with or without its ending.
    """
    path = os.path.normpath(Path(name).absolute())
    for wanted in (as_key(name), as_key(path)):
        for session in sessions:
            if wanted in (session.key, session.id):
                return session
    begins = [s for s in sessions if len(name) >= _LEAST_OF_AN_ID and s.id.startswith(name)]
    called = [s for s in sessions if s not in begins and name in _called(s.key)]
    found = [*begins, *called]
    if len(found) == 1:
        return found[0]
    if found:
        more = "give the path of its notebook" if called else "give more of the id"
        raise UsageError(f"{name!r} could be any of: {listed(found)}", hint=more)
    known = tuple(f"{s.id} ({s.key})" for s in sessions)
    raise UnknownNameError("session", name, _first(known), hint=_near(name, sessions))


def listed(sessions: Sequence[Named]) -> str:
    """The first of them, in words."""
    return ", ".join(_first([f"{session.id} ({session.key})" for session in sessions]))


def _called(key: str) -> Sequence[str]:
    """What the file of a notebook is called, for whoever is in another folder."""
    path = Path(key)
    return (path.name, path.stem) if path.is_absolute() else ()


def _first(words: Sequence[str]) -> tuple[str, ...]:
    more = [f"and {len(words) - _MOST_NAMED} more"] if len(words) > _MOST_NAMED else []
    return (*words[:_MOST_NAMED], *more)


def _near(name: str, sessions: Sequence[Named]) -> str:
    """What was meant, maybe: a key, the name of a notebook's file, an id."""
    by_word = {word: s for s in sessions for word in (s.key, Path(s.key).name, s.id)}
    near = get_close_matches(Path(name).name or name, by_word, n=1)
    if not near:
        return "`branchpoint ls` lists them all" if sessions else ""
    return f"did you mean {by_word[near[0]].key!r}?"

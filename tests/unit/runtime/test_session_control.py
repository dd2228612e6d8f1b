"""What the owner of a session can be asked for, as another process asks it."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.lineage.facts import a_session
from tests.unit.outside.forwarded import PORT, Branches, ask, forwards_of, machine, says

from branchpoint_vmruntime import session_control
from branchpoint_vmruntime.control_ops import handlers_for
from branchpoint_vmruntime.control_socket import ControlClient, ControlServer
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.session_control import SessionControl, open_sessions


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path, tmp_path / "run")
    home.ensure()
    return home


@asynccontextmanager
async def owner(home: Home) -> AsyncGenerator[Path]:
    """A session that this process has open, with one machine; its control socket."""
    record, socket = a_session(), home.control(a_session().id)
    async with (
        forwards_of(Branches(main=machine(says(b"in")))) as forwards,
        ControlServer(socket, handlers_for(lambda: record, forwards)),
    ):
        yield socket


@in_a_loop
async def test_a_port_is_forwarded_listed_and_let_go(home: Home) -> None:
    async with owner(home) as socket, SessionControl(socket) as control:
        forward = await control.forward(PORT, branch="main")
        assert await ask(forward) == b"in"
        assert [f.host_port for f in await control.forwards()] == [forward.host_port]
        assert (await control.unforward(PORT, branch="main")).host_port == forward.host_port
        assert await control.forwards() == []


@in_a_loop
async def test_what_cannot_be_is_refused_in_the_owners_words(home: Home) -> None:
    async with owner(home) as socket, SessionControl(socket) as control:
        with pytest.raises(UsageError, match="99999 is not a port"):
            await control.forward(99999)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "port has to be a number, not None"),
        ({"port": True}, "port has to be a number, not True"),
        ({"port": "80"}, "port has to be a number, not '80'"),
        ({"port": 80, "to": 1.5}, r"to has to be a number, not 1\.5"),
        ({"port": 80, "branch": 4}, "branch has to be a text, not 4"),
    ],
)
@in_a_loop
async def test_a_field_of_another_kind_is_refused(
    home: Home, fields: dict[str, Any], words: str
) -> None:
    async with owner(home) as socket, ControlClient(socket) as client:
        with pytest.raises(UsageError, match=words):
            await client.ask("forward", **fields)


@in_a_loop
async def test_the_sessions_that_are_open_are_found(home: Home) -> None:
    async with owner(home):
        [found] = await open_sessions(home)
        assert (found.id, found.key, found.pid) == (a_session().id, a_session().key, os.getpid())
    assert await open_sessions(home) == []


@in_a_loop
async def test_a_socket_of_an_owner_that_was_killed_is_no_open_session(home: Home) -> None:
    async with owner(home) as socket:
        os.link(socket, home.run / "left.sock")
    assert (home.run / "left.sock").is_socket()
    assert await open_sessions(home) == []


async def held_up(_request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answers nothing, as an owner does that waits for its disk."""
    await asyncio.Event().wait()
    return {}


@in_a_loop
async def test_a_session_whose_owner_is_held_up_is_open_as_it_is_on_record(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_control, "_SIGN_OF_LIFE_S", 0.0)
    record = a_session()
    with Journal.open(home.database) as journal:
        journal.add_session(record)
    async with ControlServer(home.control(record.id), {"session": held_up}):
        [found] = await open_sessions(home)
    assert (found.id, found.key, found.pid) == (record.id, record.key, os.getpid())
    assert await open_sessions(home) == []


@in_a_loop
async def test_an_owner_that_hangs_up_is_just_leaving_and_has_no_session_open(home: Home) -> None:
    record = a_session()
    with Journal.open(home.database) as journal:
        journal.add_session(record)

    def leave(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with await asyncio.start_unix_server(leave, home.control(record.id)):
        assert await open_sessions(home) == []

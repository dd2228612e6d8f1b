"""The socket at which the owner of a session is asked: bounded, its user's alone, in words."""

import asyncio
import contextlib
import gc
import json
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime.control_socket import (
    MAX_ANSWER_BYTES,
    MAX_LINE_BYTES,
    MAX_PEERS,
    ControlClient,
    ControlServer,
)
from branchpoint_vmruntime.errors import (
    BranchpointError,
    MachineEndedError,
    SessionBusyError,
    StorageError,
    UsageError,
)


async def repeat(request: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"said": request.get("words")}


def raising(error: Exception) -> Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]:
    async def handler(_request: Mapping[str, Any]) -> Mapping[str, Any]:
        raise error

    return handler


HANDLERS = {
    "repeat": repeat,
    "misuse": raising(UsageError("not like this", hint="like that")),
    "fail": raising(MachineEndedError("the machine has ended", hint="%rollback")),
    "bug": raising(ZeroDivisionError("of ours")),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "7f3c09d2ab41.sock"


async def raw(path: Path, sent: bytes) -> dict[str, Any]:
    """What a peer that follows no rules is answered."""
    reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE_BYTES)
    writer.write(sent)
    answer = json.loads(await reader.readline())
    writer.close()
    return answer


def files_beside(path: Path) -> list[tuple[str, str]]:
    """The names and modes of all in its folder."""
    return [(file.name, stat.filemode(file.stat().st_mode)) for file in path.parent.iterdir()]


@in_a_loop
async def test_a_question_gets_its_answer_and_the_next_one_too(path: Path) -> None:
    async with ControlServer(path, HANDLERS), ControlClient(path) as client:
        assert await client.ask("repeat", words="hällo") == {"said": "hällo"}
        assert await client.ask("repeat", words=None) == {"said": None}


@in_a_loop
async def test_several_may_ask_at_once(path: Path) -> None:
    async with (
        ControlServer(path, HANDLERS),
        ControlClient(path) as one,
        ControlClient(path) as two,
    ):
        answers = await asyncio.gather(one.ask("repeat", words=1), two.ask("repeat", words=2))
        assert answers == [{"said": 1}, {"said": 2}]


@pytest.mark.parametrize(("op", "kind"), [("misuse", UsageError), ("fail", MachineEndedError)])
@in_a_loop
async def test_what_the_owner_refuses_is_raised_in_its_words(
    path: Path, op: str, kind: type[BranchpointError]
) -> None:
    async with ControlServer(path, HANDLERS), ControlClient(path) as client:
        with pytest.raises(kind) as refused:
            await client.ask(op)
        assert type(refused.value) is kind
        assert str(refused.value) in ("not like this", "the machine has ended")
        assert refused.value.hint in ("like that", "%rollback")


@in_a_loop
async def test_a_fault_of_the_owner_is_answered_and_the_next_question_too(path: Path) -> None:
    async with ControlServer(path, HANDLERS), ControlClient(path) as client:
        with pytest.raises(BranchpointError, match="ZeroDivisionError: of ours"):
            await client.ask("bug")
        assert await client.ask("repeat", words=1) == {"said": 1}


@in_a_loop
async def test_an_unknown_question_is_answered_with_those_that_are_known(path: Path) -> None:
    async with ControlServer(path, HANDLERS), ControlClient(path) as client:
        with pytest.raises(UsageError, match="'dance'; it can for: repeat, misuse"):
            await client.ask("dance")


@in_a_loop
async def test_another_version_is_refused_in_words(path: Path) -> None:
    async with ControlServer(path, HANDLERS):
        answer = await raw(path, b'{"v": 9, "op": "repeat"}\n')
        assert "version 1 of the control socket, not 9" in answer["error"]["message"]


@in_a_loop
async def test_a_request_over_the_limit_is_refused_before_it_is_sent(path: Path) -> None:
    async with ControlServer(path, HANDLERS), ControlClient(path) as client:
        with pytest.raises(UsageError, match="more than the 1 MiB"):
            await client.ask("repeat", words="a" * MAX_LINE_BYTES)
        assert await client.ask("repeat", words=1) == {"said": 1}


@in_a_loop
async def test_a_peer_that_sends_without_end_is_told_and_left(path: Path) -> None:
    async with ControlServer(path, HANDLERS):
        answer = await raw(path, b"a" * (MAX_LINE_BYTES + 1))
        assert "1 MiB" in answer["error"]["message"]


@in_a_loop
async def test_an_answer_over_the_limit_is_refused(path: Path) -> None:
    async def much(_request: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"much": "a" * MAX_ANSWER_BYTES}

    async with ControlServer(path, {"much": much}), ControlClient(path) as client:
        with pytest.raises(UsageError, match="16 MiB"):
            await client.ask("much")


@given(st.one_of(st.binary(max_size=200), st.recursive(st.none(), st.lists).map(json.dumps)))
def test_whatever_is_sent_is_answered_in_words(sent: bytes | str) -> None:
    line = sent if isinstance(sent, bytes) else sent.encode()
    server = ControlServer(Path("unused"), HANDLERS)
    answer = json.loads(asyncio.run(server.answer(line)))
    assert answer["error"]["message"]


@in_a_loop
async def test_a_nesting_too_deep_to_read_is_answered_in_words(path: Path) -> None:
    async with ControlServer(path, HANDLERS):
        answer = await raw(path, b"[" * 100_000 + b"\n")
        assert answer["error"]["message"] == "what was sent is not JSON"


@in_a_loop
async def test_other_users_are_not_answered(path: Path) -> None:
    stranger = os.getuid() + 1
    async with ControlServer(path, HANDLERS, uid=stranger), ControlClient(path) as client:
        with pytest.raises(BranchpointError, match="hung up"):
            await client.ask("repeat")


@in_a_loop
async def test_one_peer_too_many_is_turned_away_and_the_others_go_on(path: Path) -> None:
    async with ControlServer(path, HANDLERS), ControlClient(path) as first:
        others = [await asyncio.open_unix_connection(path) for _ in range(MAX_PEERS - 1)]
        assert await first.ask("repeat", words=1) == {"said": 1}
        async with ControlClient(path) as late:
            with pytest.raises(BranchpointError, match="hung up"):
                await late.ask("repeat")
        assert await first.ask("repeat", words=2) == {"said": 2}
        for _, writer in others:
            writer.close()


@in_a_loop
async def test_the_file_is_closed_to_others_and_gone_once_the_owner_is(path: Path) -> None:
    async with ControlServer(path, HANDLERS):
        assert files_beside(path) == [(path.name, "srw-------")]
    assert files_beside(path) == []


@in_a_loop
async def test_a_file_that_a_killed_owner_left_is_replaced(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    async with ControlServer(path, HANDLERS), ControlClient(path) as client:
        assert await client.ask("repeat", words=1) == {"said": 1}


@in_a_loop
async def test_an_owner_that_lives_is_not_replaced(path: Path) -> None:
    async with ControlServer(path, HANDLERS):
        with pytest.raises(SessionBusyError):
            await ControlServer(path, HANDLERS).__aenter__()
        async with ControlClient(path) as client:
            assert await client.ask("repeat", words=1) == {"said": 1}


@in_a_loop
async def test_the_path_may_be_longer_than_an_address_holds(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    path = folder / "7f3c09d2ab41.sock"
    async with ControlServer(path, HANDLERS), ControlClient(path) as client:
        assert await client.ask("repeat", words=1) == {"said": 1}


@in_a_loop
async def test_without_an_owner_the_client_says_so(path: Path) -> None:
    with pytest.raises(UsageError, match="nobody has that session open"):
        await ControlClient(path).__aenter__()


@in_a_loop
async def test_with_what_a_killed_owner_left_the_client_says_so(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with pytest.raises(UsageError, match="nobody has that session open"):
        await ControlClient(path).__aenter__()


@in_a_loop
async def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be made"):
        await ControlServer(tmp_path / "none" / "a.sock", HANDLERS).__aenter__()


@in_a_loop
async def test_an_owner_that_leaves_calls_off_what_it_was_asked(path: Path) -> None:
    began, called_off = asyncio.Event(), asyncio.Event()

    async def wait(_request: Mapping[str, Any]) -> Mapping[str, Any]:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            called_off.set()
        return {}

    async with asyncio.TaskGroup() as group:
        async with ControlServer(path, {"wait": wait}):
            client = ControlClient(path)
            await client.__aenter__()
            asking = group.create_task(hung_up(client))
            await began.wait()
        assert called_off.is_set()
        await asking
        await client.__aexit__(None, None, None)


async def hung_up(client: ControlClient) -> None:
    with pytest.raises(BranchpointError, match="hung up"):
        await client.ask("wait")


@pytest.mark.parametrize("turns", range(8))
def test_whoever_connects_as_an_owner_leaves_is_hung_up_on_before_it_has_left(
    path: Path, turns: int
) -> None:
    async def leave() -> None:
        with socket.socket(socket.AF_UNIX) as peer:
            async with ControlServer(path, HANDLERS):
                peer.connect(str(path))
                for _ in range(turns):
                    await asyncio.sleep(0)
            peer.settimeout(0)
            # What the end of this loop closes would be closed too late.
            with contextlib.suppress(ConnectionResetError):
                assert peer.recv(1) == b""

    asyncio.run(leave())
    # What was never closed is told of as it is collected, which fails whatever test runs then.
    gc.collect()

"""Commands in a machine as the host sees them; the guest's end is real and runs on this host."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support.exec_guest import OneBranch, Unlimited, guest
from tests.support.fake_streams import FakeChannel, FakeEnd
from tests.support.front_end import in_a_loop

from branchpoint_guest import exec_frames as frames
from branchpoint_vmruntime.control_socket import ControlClient, ControlServer
from branchpoint_vmruntime.errors import (
    GuestRefusedError,
    GuestSilentError,
    MachineEndedError,
    StreamResetError,
    UnknownNameError,
    UsageError,
)
from branchpoint_vmruntime.exec_control import exec_at, exec_upgrade
from branchpoint_vmruntime.executing import (
    ExecOutput,
    ExecResult,
    ExecSpec,
    RunningCommand,
    TerminalSize,
    open_exec,
)
from branchpoint_vmruntime.lineage import BranchState

BIG = bytes(range(256)) * 8192
SIZE = TerminalSize(rows=31, columns=101)


@dataclass
class Heard:
    """All that a command wrote, and how it ended."""

    output: bytes = b""
    errors: bytes = b""
    result: ExecResult = field(default_factory=lambda: ExecResult(status=-1))


def spec(*argv: str, folder: Path, terminal: TerminalSize | None = None) -> ExecSpec:
    return ExecSpec(argv=argv, folder=str(folder), terminal=terminal)


def waiting(folder: Path) -> ExecSpec:
    """A command that runs until it is told that it is over: only then is its guest done."""
    return spec("sh", "-c", "until test -e over; do sleep 0.02; done", folder=folder)


def over(folder: Path) -> None:
    (folder / "over").touch()


async def hear(running: RunningCommand, until: bytes | None = None) -> Heard:
    """Read to its end, or until it has written that."""
    heard = Heard()
    while isinstance(news := await running.read(), ExecOutput):
        if news.is_error:
            heard.errors += news.data
        else:
            heard.output += news.data
        if until is not None and until in heard.output:
            return heard
    heard.result = news
    return heard


async def feed(running: RunningCommand, data: bytes) -> None:
    await running.write(data)
    await running.finish()


async def both(running: RunningCommand, data: bytes) -> Heard:
    """Give input while reading."""
    async with asyncio.TaskGroup() as group:
        feeding = group.create_task(feed(running, data))
        heard = await hear(running)
        feeding.cancel()
    return heard


@in_a_loop
async def test_a_command_gets_its_input_and_gives_output_errors_and_status(tmp_path: Path) -> None:
    shell = "cat; echo err >&2; exit 7"
    async with open_exec(guest(), spec("sh", "-c", shell, folder=tmp_path)) as running:
        heard = await both(running, BIG)
    assert (heard.output, heard.errors, heard.result) == (BIG, b"err\n", ExecResult(status=7))


@in_a_loop
async def test_a_command_that_a_signal_ends_has_a_shells_status(tmp_path: Path) -> None:
    async with open_exec(guest(), spec("sleep", "100", folder=tmp_path)) as running:
        await running.signal(signal.SIGTERM)
        assert (await hear(running)).result.status == 128 + signal.SIGTERM


@in_a_loop
async def test_a_command_that_is_not_there_says_so(tmp_path: Path) -> None:
    async with open_exec(guest(), spec("no-such-thing", folder=tmp_path)) as running:
        result = (await both(running, BIG)).result
    assert result.status == 127
    assert "there is no such command" in result.words


@in_a_loop
async def test_writing_to_a_command_that_does_not_read_holds_up_no_signal(tmp_path: Path) -> None:
    async with open_exec(guest(), spec("sleep", "100", folder=tmp_path)) as running:
        feeding = asyncio.create_task(feed(running, BIG))
        hearing = asyncio.create_task(hear(running))
        await asyncio.sleep(0.1)
        assert not feeding.done()
        await running.signal(signal.SIGINT)
        assert (await hearing).result.status == 130
        await feeding


@in_a_loop
async def test_a_terminal_is_resized(tmp_path: Path) -> None:
    shell = "trap 'stty size; exit' WINCH; echo begun; while :; do sleep 0.02; done"
    asked = spec("sh", "-c", shell, folder=tmp_path, terminal=SIZE)
    async with open_exec(guest(), asked) as running:
        await hear(running, until=b"begun")
        await running.resize(TerminalSize(rows=17, columns=63))
        assert b"17 63" in (await hear(running)).output


@in_a_loop
async def test_bytes_that_are_no_text_are_the_commands_as_they_are(tmp_path: Path) -> None:
    odd = b"\xff gr\xc3\xbcn"
    asked = spec("printf", "%s", os.fsdecode(odd), folder=tmp_path)
    async with open_exec(guest(), asked) as running:
        assert (await hear(running)).output == odd


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (ExecSpec(argv=[]), "no command"),
        (ExecSpec(argv=["a\0b"]), "zero byte"),
        (ExecSpec(argv=["a"], environment={"A=B": "c"}), "'A=B' cannot be the name"),
        (ExecSpec(argv=["x" * (3 << 20)]), "2 MiB"),
        (ExecSpec(argv=["a"], terminal=TerminalSize(rows=-1, columns=9)), "no terminal has -1"),
        (ExecSpec(argv=["\ud800"]), "no argument"),
    ],
)
@in_a_loop
async def test_what_cannot_be_run_is_refused_before_a_machine_is_asked(
    bad: ExecSpec, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        async with open_exec(FakeChannel(), bad):
            pass


@in_a_loop
async def test_a_guest_that_knows_no_commands_or_does_not_answer_is_an_error() -> None:
    async def says_nothing(_: FakeEnd) -> None:
        await asyncio.sleep(10)

    with pytest.raises(GuestRefusedError):
        async with open_exec(FakeChannel(), ExecSpec(argv=["ls"])):
            pass
    silent = FakeChannel(says_nothing)
    with pytest.raises(GuestSilentError):
        async with open_exec(silent, ExecSpec(argv=["ls"]), timeout_s=0.05):
            pass
    await silent.end()


@pytest.mark.parametrize(
    "sent", [b"garbage", frames.frame(frames.INPUT), frames.frame(frames.STATUS, b"1"), b""]
)
@in_a_loop
async def test_a_guest_that_makes_no_sense_is_an_error_and_not_a_wait(sent: bytes) -> None:
    async def nonsense(end: FakeEnd) -> None:
        await end.read()
        await end.write(sent)
        await end.finish()
        await end.read()

    async with open_exec(FakeChannel(nonsense), ExecSpec(argv=["ls"])) as running:
        with pytest.raises(StreamResetError):
            await running.read()
        await running.write(BIG)


class Owned:
    """A session that this process has open, at a socket of its own."""

    def __init__(self, socket: Path) -> None:
        self.session = OneBranch()
        self.socket = socket
        self.server = ControlServer(
            socket, {}, upgrades={"exec": exec_upgrade(self.session, Unlimited())}
        )


def with_owner(
    test: Callable[[Owned, Path], Coroutine[Any, Any, None]],
) -> Callable[[Path], None]:
    """Run a test in a loop, with a session that is open."""

    @in_a_loop
    async def run(tmp_path: Path) -> None:
        owned = Owned(tmp_path / "s.sock")
        async with owned.server:
            await test(owned, tmp_path)
        await owned.session.streams.end()

    run.__name__ = test.__name__
    return run


@with_owner
async def test_whoever_asks_the_owner_runs_a_command_in_the_current_branch(
    owned: Owned, tmp_path: Path
) -> None:
    async with exec_at(owned.socket, spec("cat", folder=tmp_path)) as running:
        heard = await both(running, BIG)
    assert (heard.output, heard.result.status) == (BIG, 0)


@with_owner
async def test_many_commands_at_once_have_each_their_own(owned: Owned, tmp_path: Path) -> None:
    async def one(number: int) -> Heard:
        asked = spec("sh", "-c", f"cat; exit {number}", folder=tmp_path)
        async with exec_at(owned.socket, asked) as running:
            return await both(running, b"%d" % number)

    heard = await asyncio.gather(*map(one, range(20)))
    assert [(it.output, it.result.status) for it in heard] == [(b"%d" % n, n) for n in range(20)]


@with_owner
async def test_what_a_client_still_sends_does_not_cost_it_the_last_words(
    owned: Owned, tmp_path: Path
) -> None:
    async with exec_at(owned.socket, spec("sh", "-c", "exit 3", folder=tmp_path)) as running:
        feeding = asyncio.create_task(feed(running, BIG))
        await asyncio.sleep(0.3)
        assert (await hear(running)).result.status == 3
        await feeding


@with_owner
async def test_a_client_that_goes_away_takes_its_terminal_along(
    owned: Owned, tmp_path: Path
) -> None:
    shell = "trap 'touch hung-up; exit' HUP; echo begun; while :; do sleep 0.02; done"
    asked = spec("sh", "-c", shell, folder=tmp_path, terminal=SIZE)
    async with exec_at(owned.socket, asked) as running:
        await hear(running, until=b"begun")
    async with asyncio.timeout(120):
        while not (tmp_path / "hung-up").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@with_owner
async def test_a_command_in_a_branch_that_is_paused_resumes_it(
    owned: Owned, tmp_path: Path
) -> None:
    await owned.session.lose_machine(BranchState.PAUSED)
    async with exec_at(owned.socket, spec("echo", "awake", folder=tmp_path)) as running:
        assert (await hear(running)).output == b"awake\n"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (BranchState.PAUSED, "branch 'main' was paused"),
        (BranchState.PARKED, "branch 'main' was parked"),
        (BranchState.DROPPED, "branch 'main' was dropped"),
        (BranchState.LIVE, "branch 'main' went back to a checkpoint"),
        (BranchState.LOST, "the machine has ended"),
    ],
)
def test_a_command_that_loses_its_machine_is_cut_off_and_says_why(
    tmp_path: Path, state: BranchState, words: str
) -> None:
    @with_owner
    async def lose(owned: Owned, tmp_path: Path) -> None:
        async with exec_at(owned.socket, waiting(tmp_path)) as running:
            losing = asyncio.create_task(owned.session.lose_machine(state))
            with pytest.raises(StreamResetError, match=words):
                await running.read()
            over(tmp_path)
            await losing

    lose(tmp_path)


@with_owner
async def test_an_owner_that_ends_says_so(owned: Owned, tmp_path: Path) -> None:
    async with exec_at(owned.socket, waiting(tmp_path)) as running:
        closing = asyncio.create_task(owned.server.__aexit__(None, None, None))
        with pytest.raises(StreamResetError, match="the session was closed"):
            await running.read()
        over(tmp_path)
        await closing


@with_owner
async def test_what_the_owner_refuses_is_raised_in_its_words(owned: Owned, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="'ridge'"):
        async with exec_at(owned.socket, spec("ls", folder=tmp_path), branch="ridge"):
            pass
    await owned.session.streams.end()
    with pytest.raises(MachineEndedError, match="the machine has ended"):
        async with exec_at(owned.socket, spec("ls", folder=tmp_path)):
            pass


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"argv": "ls"},
        {"argv": [1]},
        {"argv": ["ls"], "environment": ["A=1"]},
        {"argv": ["ls"], "environment": {"A": 1}},
        {"argv": ["ls"], "rows": "many", "columns": 80},
        {"argv": ["ls"], "rows": -5, "columns": 80},
        {"argv": ["ls"], "folder": 7},
        {"argv": ["ls"], "branch": 7},
    ],
)
def test_what_is_no_such_request_is_refused(tmp_path: Path, fields: dict[str, Any]) -> None:
    @with_owner
    async def ask(owned: Owned, _: Path) -> None:
        async with ControlClient(owned.socket) as client:
            with pytest.raises(UsageError):
                await client.upgrade("exec", **fields)

    ask(tmp_path)


@pytest.mark.parametrize(
    "sent", [b"garbage", frames.frame(frames.RUN, b"\0\0000\0ls"), frames.frame(frames.STATUS)]
)
def test_garbage_from_a_client_is_answered_and_harms_no_other(tmp_path: Path, sent: bytes) -> None:
    @with_owner
    async def send(owned: Owned, tmp_path: Path) -> None:
        async with ControlClient(owned.socket) as client:
            reader, writer = await client.upgrade(
                "exec", argv=list(waiting(tmp_path).argv), folder=str(tmp_path)
            )
            writer.write(sent)
            assert await reader.readuntil(b"makes no sense")
        over(tmp_path)
        async with exec_at(owned.socket, spec("echo", "fine", folder=tmp_path)) as running:
            assert (await hear(running)).output == b"fine\n"

    send(tmp_path)

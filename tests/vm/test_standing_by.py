"""A machine stands by for the checkpoint wanted next; nothing depends on its being there."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.support.live_kernel import wait_until

from branchpoint_vmruntime import Manifest, Runtime
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.workshop import STAND_BY_AFTER_S

pytestmark = pytest.mark.vm


def qemus_below(home: Home) -> set[int]:
    found: set[int] = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and str(home.live).encode() in _command(folder):
            found.add(int(folder.name))
    return found


def _command(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""


async def _roll_back(home: Home, *, signalled: int | None) -> tuple[str, set[int], set[int]]:
    async with Runtime(home) as runtime, runtime.session(Manifest()) as session:
        await session.current.run("x = 'kept'")
        saved = await session.checkpoint("kept")
        current = {session.current.machine.pid}
        while session.ready_for != saved.id:  # noqa: ASYNC110
            await asyncio.sleep(STAND_BY_AFTER_S)
        standing = qemus_below(home) - current
        if signalled is not None:
            for pid in standing:
                os.kill(pid, signalled)
        await session.rollback(saved, safety=False)
        value = str(await session.current.run("print(x)")).strip()
        return value, standing, {session.current.machine.pid}


def test_a_rollback_takes_the_machine_that_stands_by(home: Home) -> None:
    value, standing, now = asyncio.run(_roll_back(home, signalled=None))
    assert value == "kept"
    assert now == standing


async def _remove_what_is_stood_by_for(home: Home) -> None:
    async with Runtime(home) as runtime, runtime.session(Manifest()) as session:
        await session.fork(1, names=["other"])
        saved = await session.checkpoint("to-go")
        while session.ready_for != saved.id:  # noqa: ASYNC110
            await asyncio.sleep(STAND_BY_AFTER_S)
        current = session.branch("other").machine.pid
        await session.switch("other")
        await session.drop(["main"])
        assert await session.remove([saved]) == [saved]
        assert session.ready_for is None
        assert await asyncio.to_thread(wait_until, lambda: qemus_below(home) == {current})
        assert not list((home.flat / session.record.id).glob(f"{saved.id}*"))


def test_nothing_stands_by_any_more_for_a_checkpoint_that_was_removed(home: Home) -> None:
    asyncio.run(_remove_what_is_stood_by_for(home))


def test_a_rollback_does_without_a_machine_that_stood_by_and_was_killed(home: Home) -> None:
    value, standing, now = asyncio.run(_roll_back(home, signalled=signal.SIGKILL))
    assert value == "kept"
    assert not now & standing

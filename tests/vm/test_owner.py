"""Sessions without a notebook: a process of their own, asked from outside, and what it leaves."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support import session_traces as traces
from tests.support.front_end import in_a_loop
from tests.support.live_kernel import is_qemu, qemu_processes, wait_until

from branchpoint_vmruntime.control_facts import OpenSession, OwnerKind
from branchpoint_vmruntime.errors import (
    ManifestError,
    SessionBusyError,
    UnknownNameError,
    UsageError,
)
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.leaks import sweep
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.overview import SessionOverview, overview
from branchpoint_vmruntime.owner import start_owner
from branchpoint_vmruntime.removal import remove_session
from branchpoint_vmruntime.session_control import SessionControl

pytestmark = pytest.mark.vm

LABEL = "geladen-加载"
TICKER = """
import threading, time
ticks = 0
def tick():
    global ticks
    while True:
        ticks += 1
        time.sleep(0.02)
threading.Thread(target=tick, daemon=True).start()
"""


@asynccontextmanager
async def owned(home: Home, key: str, *, fresh: bool = True) -> AsyncGenerator[OpenSession]:
    """A session that a process of its own has open; its process ends with the test."""
    opened = await start_owner(home, key=key, folder=home.root, fresh=fresh)
    try:
        yield opened
    finally:
        traces.end(opened.pid, signal.SIGKILL)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def shown(home: Home, session: OpenSession) -> SessionOverview:
    return next(it for it in overview(home).sessions if it.id == session.id)


def states(home: Home, session: OpenSession) -> dict[str, BranchState]:
    return {str(branch.name): branch.state for branch in shown(home, session).branches}


@in_a_loop
async def test_a_session_without_a_notebook_does_all_that_is_asked_and_ends_saved(
    home: Home,
) -> None:
    async with owned(home, "ohne Heft") as opened, SessionControl(home.control(opened.id)) as it:
        assert opened.kind is OwnerKind.OWNER
        await it.run("x = 41")
        made = await it.checkpoint(LABEL, note="vorher", pinned=True)
        assert made.paused_ms > 0
        forked = await it.fork(1, names=["größe"], start=LABEL)
        assert [branch.awake_ms > 0 for branch in forked.branches] == [True]
        await it.run("x = 42", branch="größe")
        await it.run("x = 43")
        assert (await it.rollback(LABEL)).branch.head == made.id
        assert (await it.run("x")).text.strip() == "41"
        paused = await it.pause("größe")
        assert paused.freed_bytes > 0
        with_one = shown(home, opened)
        assert (with_one.owner and with_one.owner.pid) == opened.pid
        assert with_one.own_bytes > 0
        assert (await it.run("x", branch="größe")).text.strip() == "42"
        with pytest.raises(UnknownNameError, match=f"there is: .*{LABEL}"):
            await it.rollback("nope")
        with pytest.raises(SessionBusyError, match=f"process {opened.pid}"):
            await start_owner(home, key="ohne Heft", folder=home.root)
        ended = await it.end()
        assert [saved.branch.name for saved in ended.saved] == ["main", "größe"]
        assert is_gone(opened.pid)
    assert not home.control(opened.id).exists()
    assert set(states(home, opened).values()) == {BranchState.PAUSED}
    assert shown(home, opened).owner is None
    assert remove_session(home, opened.id).checkpoints >= 5
    assert opened.id not in [session.id for session in overview(home).sessions]
    assert not [path for path in home.root.rglob("*") if opened.id in str(path)]


@in_a_loop
async def test_what_a_killed_owner_had_is_carried_on_from_its_checkpoint(home: Home) -> None:
    async with owned(home, "killed owner") as opened:
        async with SessionControl(home.control(opened.id)) as it:
            await it.run(TICKER)
            saved = await it.checkpoint(LABEL)
        machines = [pid for pid in qemu_processes(home.root) if is_child(pid, opened.pid)]
        assert machines
        traces.end(opened.pid, signal.SIGKILL)
    assert wait_until(lambda: not any(map(is_qemu, machines))), "a machine outlived its owner"
    assert shown(home, opened).owner is None
    assert {leak.session for leak in overview(home).leaks} == {opened.id}
    assert {leak.session for leak in sweep(home)} == {opened.id}
    assert overview(home).leaks == ()
    async with owned(home, "killed owner", fresh=False) as again:
        assert again.id == opened.id
        async with SessionControl(home.control(again.id)) as it:
            resumed = await it.resume()
            assert resumed.checkpoint.id == saved.id
            ticks = int((await it.run("ticks")).text)
            assert await reaches(it, ticks + 1)


@in_a_loop
async def test_an_owner_that_is_told_to_terminate_saves_and_goes_on_from_that_very_moment(
    home: Home,
) -> None:
    async with owned(home, "terminated") as opened:
        async with SessionControl(home.control(opened.id)) as it:
            await it.run("x = 1")
            await it.checkpoint()
            await it.run("x = 2")
        await asyncio.to_thread(traces.end, opened.pid, signal.SIGTERM)
    assert states(home, opened) == {"main": BranchState.PAUSED}
    assert not home.control(opened.id).exists()
    assert not (home.live / opened.id).exists()
    async with (
        owned(home, "terminated", fresh=False) as again,
        SessionControl(home.control(again.id)) as it,
    ):
        assert (await it.run("x")).text.strip() == "2"
        assert (await it.end(save=False)).lost == ("main",)


@in_a_loop
async def test_an_owner_saves_although_its_machines_were_told_to_terminate_with_it(
    home: Home,
) -> None:
    # As systemd does it at a stop and at a reboot: to each process there is in the unit.
    async with owned(home, "terminated at once") as opened:
        async with SessionControl(home.control(opened.id)) as it:
            await it.run("x = 1")
            await it.checkpoint()
            await it.run("x = 2")
        machines = [pid for pid in qemu_processes(home.root) if is_child(pid, opened.pid)]
        for number in (signal.SIGTERM, signal.SIGHUP):
            for pid in machines:
                os.kill(pid, number)
        await asyncio.to_thread(traces.end, opened.pid, signal.SIGTERM)
        assert wait_until(lambda: not any(map(is_qemu, machines))), "a machine outlived its owner"
    assert states(home, opened) == {"main": BranchState.PAUSED}
    async with (
        owned(home, "terminated at once", fresh=False) as again,
        SessionControl(home.control(again.id)) as it,
    ):
        assert (await it.run("x")).text.strip() == "2"
        assert (await it.end(save=False)).lost == ("main",)


@in_a_loop
async def test_an_owner_that_cannot_open_its_session_says_why_and_leaves_nothing(
    home: Home, tmp_path: Path
) -> None:
    before = [session.id for session in overview(home).sessions]
    manifest = tmp_path / "branchpoint.yaml"
    manifest.write_text("machine: huge\n")
    with pytest.raises(ManifestError, match=r"branchpoint\.yaml, line 1: 'huge': a machine is"):
        await start_owner(home, manifest=manifest, key="never")
    manifest.write_text("secrets: {KEY: {host: api.example.org, from: {env: NEVER_SET}}}\n")
    with pytest.raises(UsageError, match=r"\$NEVER_SET, which is not set"):
        await start_owner(home, manifest=manifest, key="never")
    assert [session.id for session in overview(home).sessions] == before
    assert not any("never" in words and str(home.root) in words for words in owners())


def owners() -> list[str]:
    """What processes that have a session open were started with."""
    found: list[str] = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                words = (place / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if "branchpoint_vmruntime.owner" in words:
                found.append(words)
    return found


def is_child(pid: int, parent: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return int(stat.rpartition(")")[2].split()[1]) == parent


async def reaches(it: SessionControl, ticks: int) -> bool:
    """Whether the counter goes on to that."""
    for _ in range(100):
        if int((await it.run("ticks")).text) >= ticks:
            return True
    return False

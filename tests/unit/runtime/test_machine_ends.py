"""How a machine ends, and what is told then to whoever uses it; and how one does not begin."""

import asyncio
import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.runtime.machines import IDENTITY, a_spec, made_up

from branchpoint_vmruntime.errors import (
    KernelDiedError,
    MachineEndedError,
    MachineError,
    MachineStartError,
)
from branchpoint_vmruntime.launching import launch
from branchpoint_vmruntime.link import ControlLink, KernelLink
from branchpoint_vmruntime.process import QemuProcess
from branchpoint_vmruntime.spec import Emulator, MachineSpec, Port
from branchpoint_vmruntime.stream_link import StreamLink


@in_a_loop
async def test_a_kernel_killed_for_memory_is_said_to_be(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        ended = {"status": -9, "kills_for_memory": 1, "memory_limit_bytes": 700 << 20}
        it.guest.say({"op": "kernel-ended", **ended})
        with pytest.raises(KernelDiedError, match=r"ran out of memory.*700 MiB"):
            await it.machine.kernel.receive()
        assert isinstance(it.machine.failure, KernelDiedError)
        assert it.machine.alive


@in_a_loop
async def test_whoever_looks_on_hears_once_that_a_machine_can_be_used_no_more(
    tmp_path: Path,
) -> None:
    heard: list[MachineError | None] = []
    async with made_up(tmp_path) as it:
        it.machine.on_failure = lambda: heard.append(it.machine.failure)
        it.guest.say({"op": "relay-ended"})
        with pytest.raises(KernelDiedError):
            await it.machine.kernel.receive()
    assert heard == [it.machine.failure]
    assert isinstance(it.machine.failure, KernelDiedError)


@in_a_loop
async def test_a_relay_that_ends_takes_the_kernel_with_it(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.say({"op": "relay-ended"})
        with pytest.raises(KernelDiedError, match="relay"):
            await it.machine.kernel.receive()


@pytest.mark.parametrize("port", ["control", "kernel"])
def test_a_guest_that_breaks_off_its_conversation_with_us_has_lost_its_kernel(
    tmp_path: Path, port: str
) -> None:
    @in_a_loop
    async def garble() -> None:
        async with made_up(tmp_path) as it:
            write = it.guest.write_control if port == "control" else it.guest.write_kernel
            write(b"\x00" * 64)
            with pytest.raises(MachineError, match="could not be understood"):
                await it.machine.kernel.receive()
            assert it.machine.failure is not None

    garble()


@in_a_loop
async def test_an_event_it_does_not_know_changes_nothing(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.say({"op": "something-new"})
        await it.machine.ping(timeout_s=120)
        assert it.machine.failure is None


@in_a_loop
async def test_a_qemu_that_is_killed_ends_everything_with_the_same_reason(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.replies["ping"] = None
        waiting = [
            asyncio.create_task(work)
            for work in (it.machine.kernel.receive(), it.machine.ping(timeout_s=120))
        ]
        await asyncio.sleep(0)
        os.kill(it.machine.pid, signal.SIGKILL)
        for outcome in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(outcome, MachineEndedError)
            assert "killed by signal 9" in str(outcome)
        assert not it.machine.alive
        assert isinstance(it.machine.failure, MachineEndedError)


@in_a_loop
async def test_a_machine_ended_on_purpose_tells_the_purpose(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        await it.machine.end("a rollback replaced it")
        with pytest.raises(MachineEndedError, match="a rollback replaced it"):
            await it.machine.kernel.receive()


@in_a_loop
async def test_the_first_failure_is_the_one_that_is_told(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.say({"op": "kernel-ended", "status": 1, "kills_for_memory": 0})
        await it.machine.ping(timeout_s=120)
        await it.machine.end()
        assert isinstance(it.machine.failure, KernelDiedError)


@in_a_loop
async def test_a_sealed_overlay_is_below_the_fresh_one_and_unsaved_until_it_is_saved(
    tmp_path: Path,
) -> None:
    async with made_up(tmp_path) as it:
        first, layers = it.machine.disks.overlay, it.machine.disks.layers
        it.machine.seal_overlay(tmp_path / "second", "node-2")
        it.machine.seal_overlay(tmp_path / "third", "node-3")
        assert it.machine.disks.layers == (*layers, first, tmp_path / "second")
        assert it.machine.disks.overlay == tmp_path / "third"
        assert it.machine.top_node == "node-3"
        assert it.machine.unsaved_overlays == (first, tmp_path / "second")
        it.machine.overlays_saved()
        assert it.machine.unsaved_overlays == ()


@in_a_loop
async def test_a_host_that_cannot_start_a_process_is_a_start_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    def spec(monitor_fd: int, ports: tuple[Port, ...]) -> MachineSpec:
        return replace(a_spec(tmp_path), monitor_fd=monitor_fd, ports=ports)

    with pytest.raises(MachineStartError, match="could not be started"):
        async with launch(spec, tmp_path, IDENTITY):
            pass


def a_sleeper(folder: Path, monitor_fd: int, ports: tuple[Port, ...]) -> MachineSpec:
    """A spec whose emulator takes any arguments and does nothing."""
    emulator = Emulator(argv=("sh", "-c", "exec sleep 1000"), accelerator="tcg")
    return replace(a_spec(folder), emulator=emulator, monitor_fd=monitor_fd, ports=ports)


@pytest.mark.parametrize(
    ("link", "opens"), [(ControlLink, "open"), (KernelLink, "open"), (StreamLink, "connect")]
)
@in_a_loop
async def test_a_launch_that_is_called_off_halfway_leaves_no_process_and_no_socket(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    link: type[ControlLink | KernelLink | StreamLink],
    opens: str,
) -> None:
    opening, never = asyncio.Event(), asyncio.Event()
    started: list[QemuProcess] = []
    start = QemuProcess.start

    async def hang(*_: object) -> None:
        opening.set()
        await never.wait()

    def note(*args: Any, **kwargs: Any) -> QemuProcess:
        started.append(start(*args, **kwargs))
        return started[0]

    async def use() -> None:
        async with launch(partial(a_sleeper, tmp_path), tmp_path / "machine", IDENTITY):
            pass

    (tmp_path / "machine").mkdir()
    monkeypatch.setattr(link, opens, hang)
    monkeypatch.setattr(QemuProcess, "start", note)
    open_before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    using = asyncio.create_task(use())
    await opening.wait()
    using.cancel()
    await asyncio.wait([using])
    await asyncio.sleep(0)
    assert using.cancelled()
    assert started[0].ended
    assert not (tmp_path / "machine").exists()
    assert set(os.listdir("/proc/self/fd")) <= open_before  # noqa: PTH208

"""The monitor: each command as QEMU knows it, each failure an error that names the command."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from socket import socketpair

import pytest
from tests.support.fake_monitor import FakeMonitor, fake_monitor
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime import monitor as monitor_module
from branchpoint_vmruntime.errors import MachineError
from branchpoint_vmruntime.monitor import Monitor


@asynccontextmanager
async def connected(*early: str) -> AsyncGenerator[tuple[Monitor, FakeMonitor]]:
    """A monitor and the QEMU it thinks it speaks to, which first tells of `early` events."""
    ours, theirs = socketpair()
    ours.setblocking(False)  # noqa: FBT003
    async with fake_monitor(theirs) as qemu:
        qemu.early.extend(early)
        monitor = await Monitor.connect(ours, name="test")
        try:
            yield monitor, qemu
        finally:
            await monitor.close()


@in_a_loop
async def test_devices_are_saved_without_the_memory(tmp_path: Path) -> None:
    async with connected() as (monitor, qemu):
        await monitor.save_devices(tmp_path / "the devices")
        arguments = {"filename": str(tmp_path / "the devices"), "live": True}
        assert qemu.commands == [("xen-save-devices-state", arguments)]


@in_a_loop
async def test_a_machine_that_runs_before_its_monitor_is_greeted_has_a_monitor() -> None:
    async with connected("RESUME") as (monitor, _qemu):
        assert await monitor.status() == "running"


@in_a_loop
async def test_an_overlay_is_opened_and_then_placed_above_the_node_it_seals() -> None:
    async with connected() as (monitor, qemu):
        await monitor.add_node({"driver": "qcow2", "node-name": "overlay-1"})
        await monitor.place_above("layer-3", overlay="overlay-1")
        assert qemu.commands == [
            ("blockdev-add", {"driver": "qcow2", "node-name": "overlay-1"}),
            ("blockdev-snapshot", {"node": "layer-3", "overlay": "overlay-1"}),
        ]


@in_a_loop
async def test_waiting_for_a_machine_to_run_asks_until_it_does() -> None:
    async with connected() as (monitor, qemu):
        qemu.returns["query-status"] = [
            {"status": "inmigrate"},
            {"status": "paused"},
            {"status": "running"},
        ]
        await monitor.wait_running()
        assert len(qemu.commands) == 3


@in_a_loop
async def test_a_command_qemu_refuses_is_an_error_with_its_name_and_qemu_s_words() -> None:
    async with connected() as (monitor, qemu):
        qemu.errors["stop"] = "the machine is on fire"
        with pytest.raises(MachineError, match=r"'stop'.*the machine is on fire"):
            await monitor.stop()


@in_a_loop
async def test_a_command_that_is_not_carried_out_in_time_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with connected() as (monitor, qemu):
        monkeypatch.setattr(monitor_module, "_TIMEOUT_S", 0.05)
        qemu.silent.add("cont")
        with pytest.raises(MachineError, match=r"'cont' within 0\.05 s"):
            await monitor.resume()


@in_a_loop
async def test_a_qemu_that_is_gone_is_an_error_and_not_a_wait() -> None:
    ours, theirs = socketpair()
    ours.setblocking(False)  # noqa: FBT003
    theirs.close()
    with pytest.raises(MachineError, match="did not answer"):
        await Monitor.connect(ours, name="test")


@in_a_loop
async def test_how_long_it_stood_still_is_told_by_qemu_s_own_clock() -> None:
    async with connected() as (monitor, qemu):
        await monitor.stop()
        qemu.event("STOP", 100.5)
        qemu.event("RESUME", 100.75)
        await monitor.status()
        assert monitor.stopped_ms() == pytest.approx(250.0)


@in_a_loop
async def test_a_machine_that_still_stands_has_no_such_time() -> None:
    async with connected() as (monitor, qemu):
        assert monitor.stopped_ms() == 0.0
        await monitor.stop()
        qemu.event("STOP", 100.5)
        await monitor.status()
        assert monitor.stopped_ms() == 0.0


@in_a_loop
async def test_only_the_last_stop_counts() -> None:
    async with connected() as (monitor, qemu):
        for start, end in ((100.0, 110.0), (200.0, 200.5)):
            await monitor.stop()
            qemu.event("STOP", start)
            qemu.event("RESUME", end)
            await monitor.status()
        assert monitor.stopped_ms() == pytest.approx(500.0)

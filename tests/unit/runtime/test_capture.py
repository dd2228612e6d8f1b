"""Taking a checkpoint of a process that has a guest's memory: exactly what it wrote, or no harm."""

import asyncio
import os
import threading
from pathlib import Path

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.runtime.studio import FACTS, PARENT, WRITTEN, Studio, studio

from branchpoint_vmruntime import capture as capture_module
from branchpoint_vmruntime import checkpoint as checkpoint_module
from branchpoint_vmruntime.errors import (
    CheckpointError,
    FreezeError,
    MachineEndedError,
    MachineError,
    StorageError,
)
from branchpoint_vmruntime.memory.dirty import PAGE
from branchpoint_vmruntime.memory.layer import apply_layer
from branchpoint_vmruntime.storage.digests import DIGESTS, check, read_digests
from branchpoint_vmruntime.store import LayerStore


@pytest.mark.parametrize("alone", [0, checkpoint_module.COPY_ALONE])
@in_a_loop
async def test_a_checkpoint_holds_exactly_what_the_machine_has_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: int
) -> None:
    monkeypatch.setattr(checkpoint_module, "COPY_THREADS", 2)
    monkeypatch.setattr(checkpoint_module, "COPY_ALONE", alone)
    async with studio(tmp_path) as it:
        saved = await it.publish(await it.draft())
        layer = it.store.layer(saved.id)
        (tmp_path / "flat").write_bytes(PARENT)
        with (tmp_path / "flat").open("r+b") as flat:
            assert apply_layer(layer.memory, flat.fileno()) == len(WRITTEN) - 1
        expected = bytearray(PARENT)
        for page, byte in WRITTEN.items():
            expected[page * PAGE : (page + 1) * PAGE] = bytes([byte]) * PAGE
        assert (tmp_path / "flat").read_bytes() == expected
        assert layer.devices.read_bytes() == b"devices"
        assert (layer.facts(), layer.nonce) == (FACTS, "c0ffee")


@in_a_loop
async def test_what_is_noted_of_a_checkpoint_is_what_its_files_hold(tmp_path: Path) -> None:
    async with studio(tmp_path) as it:
        layer = it.store.layer((await it.publish(await it.draft())).id)
        assert set(read_digests(layer)) == {path.name for path in layer.folder.iterdir()} - {
            DIGESTS
        }
        assert check(layer) == []


@in_a_loop
async def test_a_checkpoint_tells_what_it_cost(tmp_path: Path) -> None:
    async with studio(tmp_path) as it:
        cost = (await it.publish(await it.draft())).cost
        assert cost.dirty_bytes == len(WRITTEN) * PAGE
        # A header, and the three pages that differ and are not zero.
        assert cost.memory_bytes == 4 * PAGE
        assert cost.device_bytes == len(b"devices")
        assert {"freeze", "stop", "copy", "resume", "thaw", "write"} <= set(cost.phases_ms)
        assert cost.paused_ms <= cost.total_ms


@in_a_loop
async def test_everything_is_taken_while_the_machine_stands_still(tmp_path: Path) -> None:
    async with studio(tmp_path) as it:
        await it.draft()
        names = [name for name, _ in it.qemu.commands]
        window = names[names.index("stop") : names.index("cont")]
        assert set(window) == {"stop", "xen-save-devices-state", "blockdev-snapshot"}
        assert it.asked() == ["freeze", "thaw"]


@in_a_loop
async def test_the_disk_s_overlay_is_sealed_and_kept_and_the_next_one_is_above_it(
    tmp_path: Path,
) -> None:
    async with studio(tmp_path) as it:
        sealed, below = it.machine.disks.overlay, it.machine.top_node
        saved = await it.publish(await it.draft())
        [disk] = it.store.layer(saved.id).disks
        assert disk.samefile(sealed)
        [(_, snapshot)] = [c for c in it.qemu.commands if c[0] == "blockdev-snapshot"]
        assert snapshot == {"node": below, "overlay": it.machine.top_node}
        assert it.machine.disks.layers[-1] == sealed


@in_a_loop
async def test_a_machine_that_is_to_be_replaced_is_left_standing_until_told(
    tmp_path: Path,
) -> None:
    async with studio(tmp_path) as it:
        await it.draft(resume=False)
        assert (it.done(), it.asked()) == (["stop"], ["freeze"])
        await it.machine.run_on()
        await it.runs_on()


@pytest.mark.parametrize("step", ["dirty_runs", "PageBuffer"])
@in_a_loop
async def test_others_are_served_while_what_is_to_be_copied_is_measured_and_room_is_made_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    loop = asyncio.get_running_loop()
    work = getattr(capture_module, step)

    def slowly(*arguments: object) -> object:
        served = threading.Event()
        loop.call_soon_threadsafe(served.set)
        assert threading.current_thread() is not threading.main_thread()
        assert served.wait(timeout=60)
        return work(*arguments)

    async with studio(tmp_path) as it:
        monkeypatch.setattr(capture_module, step, slowly)
        await it.draft()
        await it.runs_on()


STEPS = ("stop", "xen-save-devices-state", "blockdev-snapshot")


@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize("step", STEPS)
@in_a_loop
async def test_a_step_that_qemu_refuses_leaves_the_machine_running_and_nothing_saved(
    tmp_path: Path,
    step: str,
    resume: bool,  # noqa: FBT001
) -> None:
    async with studio(tmp_path) as it:
        it.qemu.errors[step] = "no"
        with pytest.raises(MachineError, match=step):
            await it.draft(resume=resume)
        assert it.kept() == []
        await it.runs_on()


@pytest.mark.parametrize("step", STEPS)
@in_a_loop
async def test_after_a_step_that_failed_the_next_checkpoint_has_all_of_the_disk(
    tmp_path: Path, step: str
) -> None:
    async with studio(tmp_path) as it:
        first = it.machine.disks.overlay
        it.qemu.errors[step] = "no"
        with pytest.raises(MachineError):
            await it.draft()
        del it.qemu.errors[step]
        sealed = [first] if it.machine.disks.overlay == first else [first, it.machine.disks.overlay]
        saved = await it.publish(await it.draft())
        disks = it.store.layer(saved.id).disks
        assert [disk.stat().st_ino for disk in disks] == [path.stat().st_ino for path in sealed]


@in_a_loop
async def test_a_guest_that_cannot_freeze_is_not_stopped(tmp_path: Path) -> None:
    async with studio(tmp_path) as it:
        it.guest.replies["freeze"] = {"error": "a process could not be frozen within 5 s"}
        with pytest.raises(FreezeError):
            await it.draft()
        assert (it.done(), it.kept()) == ([], [])
        await it.runs_on()


@in_a_loop
async def test_an_overlay_that_cannot_be_opened_stops_nothing(tmp_path: Path) -> None:
    async with studio(tmp_path) as it:
        it.qemu.errors["blockdev-add"] = "no"
        with pytest.raises(MachineError, match="blockdev-add"):
            await it.draft()
        assert (it.done(), it.asked(), it.kept()) == ([], [], [])
        await it.runs_on()


ENOSPC = OSError(28, "No space left on device")


@in_a_loop
async def test_memory_that_cannot_be_copied_leaves_the_machine_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    async with studio(tmp_path) as it:
        monkeypatch.setattr(capture_module, "_copy", fail)
        with pytest.raises(CheckpointError, match="Input/output error"):
            await it.draft()
        assert it.kept() == []
        await it.runs_on()


@in_a_loop
async def test_a_disk_without_room_for_a_folder_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise ENOSPC

    async with studio(tmp_path) as it:
        monkeypatch.setattr(LayerStore, "stage", full)
        with pytest.raises(StorageError, match="the disk is full"):
            await it.draft()
        await it.runs_on()


@pytest.mark.parametrize("step", ["write_layer", "publish"])
@in_a_loop
async def test_a_full_disk_while_writing_leaves_nothing_and_the_next_one_has_all(
    tmp_path: Path, step: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise ENOSPC

    async with studio(tmp_path) as it:
        first = it.machine.disks.overlay
        pending = await it.draft()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(checkpoint_module if step == "write_layer" else LayerStore, step, full)
            with pytest.raises(StorageError, match="the disk is full") as caught:
                await it.publish(pending)
        assert caught.value.hint
        assert it.kept() == []
        await it.runs_on()
        saved = await it.publish(await it.draft())
        assert len(it.store.layer(saved.id).disks) == 2
        assert it.store.layer(saved.id).disks[0].samefile(first)


@in_a_loop
async def test_a_disk_that_fails_while_the_parent_is_read_leaves_nothing_and_the_machine_running(
    tmp_path: Path,
) -> None:
    def failing(*_: object) -> int:
        raise OSError(5, "Input/output error")

    async with studio(tmp_path) as it:
        pending = await it.draft()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "preadv", failing)
            with pytest.raises(CheckpointError, match="Input/output error"):
                await it.publish(pending)
        assert it.kept() == []
        await it.runs_on()


async def called_off(it: Studio, step: str) -> None:
    """Cancel a capture while QEMU is at that step, which it carries out all the same."""
    held = it.qemu.holds[step] = asyncio.Event()
    task = asyncio.create_task(it.draft())
    await it.qemu.reached[step].wait()
    # What goes on beside that step is over by then.
    await asyncio.sleep(0.03)
    task.cancel()
    await asyncio.sleep(0)
    held.set()
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.mark.parametrize("step", STEPS)
@in_a_loop
async def test_a_checkpoint_called_off_at_any_step_leaves_the_machine_running(
    tmp_path: Path, step: str
) -> None:
    async with studio(tmp_path) as it:
        await called_off(it, step)
        assert it.kept() == []
        await it.runs_on()


@in_a_loop
async def test_an_overlay_placed_while_it_was_called_off_is_known_to_be_there(
    tmp_path: Path,
) -> None:
    async with studio(tmp_path) as it:
        first = it.machine.disks.overlay
        await called_off(it, "blockdev-snapshot")
        [(_, placed)] = [c for c in it.qemu.commands if c[0] == "blockdev-snapshot"]
        assert it.machine.top_node == placed["overlay"]
        assert it.machine.disks.overlay.exists()
        assert it.machine.unsaved_overlays == (first,)


@in_a_loop
async def test_a_machine_killed_while_it_is_captured_is_an_ended_machine(tmp_path: Path) -> None:
    async with studio(tmp_path) as it:
        it.guest.replies["freeze"] = None
        drafting = asyncio.create_task(it.draft())
        await it.guest.wait_asked("freeze")
        it.machine.process.kill()
        with pytest.raises(MachineEndedError):
            await drafting
        assert it.kept() == []

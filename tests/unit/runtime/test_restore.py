"""From a checkpoint to a machine that is awake: loaded, greeted, and proven to be the one saved."""

import asyncio
from pathlib import Path

import pytest
from tests.support.fake_guest import NONCE
from tests.support.front_end import in_a_loop
from tests.unit.runtime.machines import MadeUp, made_up

from branchpoint_vmruntime.errors import MachineError, MachineStartError, WakeError
from branchpoint_vmruntime.incarnation import Identity
from branchpoint_vmruntime.restore import (
    SavedMachine,
    Woken,
    disk_chain,
    fresh_overlay,
    wake_standing,
)
from branchpoint_vmruntime.spec import Emulator, MachineSize

ANOTHER = Identity.new(session="s-1", branch="forest", index=2)


def saved(folder: Path, nonce: str = NONCE) -> SavedMachine:
    """What a checkpoint in that folder would say."""
    (folder / "devices").write_bytes(b"devices")
    return SavedMachine(
        emulator=Emulator(argv=("qemu",), accelerator="tcg"),
        size=MachineSize(),
        root=folder / "root",
        overlay_template=folder / "template",
        memory=folder / "memory",
        devices=folder / "devices",
        disk_layers=(folder / "disk-000.qcow2",),
        nonce=nonce,
    )


async def wake(it: MadeUp, folder: Path, nonce: str = NONCE) -> Woken:
    """Wake a machine that stands by, as another branch."""
    return await wake_standing(it.machine, saved(folder, nonce), ANOTHER, reseed=True)


@in_a_loop
async def test_a_machine_that_stands_by_loads_the_devices_and_then_wakes(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        woken = await wake(it, tmp_path)
        assert [name for name, _ in it.monitor.commands] == ["getfd", "migrate-incoming"]
        assert woken.awake.nonce == NONCE
        assert woken.machine is it.machine
        assert {"spawn", "load-and-wake", "guest-clock"} <= set(woken.cost.phases_ms)


@in_a_loop
async def test_a_machine_that_stood_by_wakes_as_who_it_now_is(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        await wake(it, tmp_path)
        assert it.machine.identity == ANOTHER
        assert it.machine.kernel.incarnation == ANOTHER.incarnation
        [(_, _, identity, host_name, *names)] = it.guest.orders
        assert identity == ANOTHER.as_json()
        assert (host_name, names[1]) == ("forest", ANOTHER.incarnation)


@in_a_loop
async def test_a_kernel_that_is_not_the_one_that_was_saved_is_never_handed_out(
    tmp_path: Path,
) -> None:
    async with made_up(tmp_path) as it:
        with pytest.raises(WakeError, match="not the one that was saved"):
            await wake(it, tmp_path, nonce="another")


@in_a_loop
async def test_a_kernel_without_a_nonce_is_taken_at_its_word(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        assert (await wake(it, tmp_path, nonce="")).awake.nonce == NONCE


@in_a_loop
async def test_devices_that_qemu_cannot_load_are_an_error_in_its_words(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.monitor.errors["migrate-incoming"] = "unknown savevm section"
        with pytest.raises(MachineError, match="unknown savevm section"):
            await wake(it, tmp_path)


@in_a_loop
async def test_a_machine_that_ends_while_it_loads_could_not_be_started(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.replies["wake"] = None
        waking = asyncio.create_task(wake(it, tmp_path))
        await it.guest.wait_asked("wake")
        it.machine.process.kill()
        with pytest.raises(MachineStartError, match="killed by signal 9"):
            await waking


def test_a_machine_s_disk_is_the_template_and_what_each_ancestor_wrote_oldest_first() -> None:
    base, parent, child = (Path(name) for name in ("base", "parent", "child"))
    again = Path("parent-again")
    chain = disk_chain(Path("template"), [(base,), (parent, again), (), (child,)])
    assert chain == (Path("template"), base, parent, again, child)


def test_a_machine_s_folder_is_its_own_and_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "template").write_bytes(b"empty")
    overlay = fresh_overlay(tmp_path / "live" / "one", tmp_path / "template")
    assert overlay.read_bytes() == b"empty"
    assert overlay.parent.stat().st_mode & 0o077 == 0
    with pytest.raises(FileExistsError):
        fresh_overlay(tmp_path / "live" / "one", tmp_path / "template")

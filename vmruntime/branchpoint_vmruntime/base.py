"""The base checkpoint: one cold boot to a warm kernel, saved, so that no session boots again."""

import asyncio
import hashlib
import json
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from branchpoint_vmruntime.checkpoint import new_checkpoint_id, storage_error
from branchpoint_vmruntime.command_line import command_line
from branchpoint_vmruntime.errors import BranchpointError, GuestSilentError, MachineStartError
from branchpoint_vmruntime.foundation import KERNEL_ARGV, Foundation
from branchpoint_vmruntime.image.command import tail
from branchpoint_vmruntime.incarnation import Identity
from branchpoint_vmruntime.launching import PORTS, launch
from branchpoint_vmruntime.lineage import BranchName, Checkpoint, CheckpointCost, CheckpointKind
from branchpoint_vmruntime.machine import Machine
from branchpoint_vmruntime.memory.sparse import bytes_on_disk, dig_holes
from branchpoint_vmruntime.restore import fresh_overlay
from branchpoint_vmruntime.spec import (
    Boot,
    Disks,
    Emulator,
    GuestMemory,
    MachineSpec,
    Port,
)
from branchpoint_vmruntime.storage.digests import write_digests
from branchpoint_vmruntime.store import Layer, LayerStore

# A first boot is some 10 s of work when emulated, of which a busy host gives it a small part.
BOOT_TIMEOUT_S = 300.0
KERNEL_TIMEOUT_S = 300.0
CONFIGURE_TIMEOUT_S = 900.0
_TAIL_BYTES = 2000
_CONFIGURE = ("env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "--configure", "-a")
BASE_LABEL = "base"

# What a person does first, done once before everyone's first time: output, a traceback, completion,
# inspection.
_WARM_UP = """
_shell = get_ipython()
print("warm", flush=True)
_shell.display_formatter.format({"a": 1})
_shell.complete("pri")
_shell.object_inspect("print")
del _shell
"""


def base_key(foundation: Foundation) -> str:
    """A digest of all that decides how a base checkpoint turns out, wherever that is made."""
    nowhere = Path()
    anywhere = replace(
        foundation,
        emulator=Emulator(argv=(), accelerator=foundation.facts.accelerator),
        kernel=nowhere,
        initramfs=nowhere,
        root=nowhere,
        disk_template=nowhere,
        # The rate of the host's clock is measured, and never quite the same.
        facts=replace(foundation.facts, tsc_khz=0),
    )
    ports = tuple(Port(name=name, fd=0) for name in PORTS)
    parts = {
        "facts": foundation.facts.key,
        "initramfs": foundation.initramfs_digest,
        "kernel": foundation.kernel_argv,
        "size": asdict(foundation.size),
        "machine": command_line(_spec(anywhere, Path("memory"), Path("overlay"), 0, ports)),
        "first code": _first_code(foundation),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


async def make_base(store: LayerStore, foundation: Foundation, work: Path) -> Checkpoint:
    """Boot, warm up, save.

    The machine that writes the image ends with that: running on, it would spoil it.
    """
    checkpoint = new_checkpoint_id()
    staged = store.stage(checkpoint)
    started = time.monotonic()
    try:
        phases, nonce = await _boot_and_save(staged, foundation, work)
        dug = await asyncio.to_thread(dig_holes, staged.memory)
        staged.write_facts(foundation.facts, nonce)
        if foundation.image_files:
            staged.note_image(foundation.image_files)
        await asyncio.to_thread(write_digests, staged)
        layer = await asyncio.to_thread(store.publish, staged, checkpoint)
    except BaseException as error:
        store.discard(staged)
        if isinstance(error, OSError):
            raise storage_error(error) from error
        raise
    return Checkpoint(
        id=checkpoint,
        session=None,
        parent=None,
        label=BASE_LABEL,
        note=f"freshly booted, kernel warm; {dug >> 20} MB of zeros left out",
        kind=CheckpointKind.BASE,
        branch=BranchName("main"),
        created_at=datetime.now(UTC),
        key=base_key(foundation),
        cost=CheckpointCost(
            total_ms=round(1000 * (time.monotonic() - started), 3),
            memory_bytes=bytes_on_disk(layer.memory),
            device_bytes=layer.devices.stat().st_size,
            disk_bytes=sum(bytes_on_disk(path) for path in layer.disks),
            phases_ms=phases,
        ),
    )


async def _boot_and_save(
    staged: Layer, foundation: Foundation, work: Path
) -> tuple[dict[str, float], str]:
    overlay = fresh_overlay(work, foundation.overlay_template)

    def spec(monitor_fd: int, ports: tuple[Port, ...]) -> MachineSpec:
        return _spec(foundation, staged.memory, overlay, monitor_fd, ports)

    identity = Identity.new(session="", branch="main", index=0)
    started = time.monotonic()
    async with launch(spec, work, identity) as machine:
        try:
            await machine.wait_booted(timeout_s=BOOT_TIMEOUT_S)
            if foundation.unconfigured:
                await configure(machine)
            booted = time.monotonic()
            await machine.start_kernel(foundation.kernel_argv, {}, timeout_s=KERNEL_TIMEOUT_S)
            nonce = await _warm_up(machine, _first_code(foundation))
        except Exception as error:
            raise first_boot_error(error, work / "console.log") from error
        warm = time.monotonic()
        await _save(machine, staged)
    phases = {
        "boot": round(1000 * (booted - started), 1),
        "kernel": round(1000 * (warm - booted), 1),
        "save": round(1000 * (time.monotonic() - warm), 1),
    }
    return phases, nonce


def _spec(
    foundation: Foundation, memory: Path, overlay: Path, monitor_fd: int, ports: tuple[Port, ...]
) -> MachineSpec:
    return MachineSpec(
        emulator=foundation.emulator,
        size=foundation.size,
        memory=GuestMemory(path=memory, shared=True),
        disks=Disks(root=foundation.root, layers=(foundation.disk_template,), overlay=overlay),
        start=Boot(
            kernel=foundation.kernel,
            initramfs=foundation.initramfs,
            tsc_khz=foundation.facts.tsc_khz,
        ),
        ports=ports,
        monitor_fd=monitor_fd,
        console=overlay.with_name("console.log"),
    )


def _first_code(foundation: Foundation) -> str:
    # With our hook it is ipykernel; of another's language we know nothing.
    return _WARM_UP if KERNEL_ARGV[-1] in foundation.kernel_argv else ""


def first_boot_error(error: Exception, console: Path) -> MachineStartError:
    """What a first boot ended with, for somebody who has no checkpoint to go back to yet."""
    what, hint = str(error), error.hint if isinstance(error, BranchpointError) else ""
    if isinstance(error, GuestSilentError):
        # The console it names is deleted with the machine; what was in it is below.
        what = f"the guest did not answer within {error.waited_s:g} s"
        hint = "try again, when the host has less to do; `branchpoint doctor` says what it lacks"
    return MachineStartError(
        f"the first boot did not succeed: {what}\n{console_tail(console)}", hint=hint
    )


async def configure(machine: Machine) -> None:
    """Have the packages of the manifest set themselves up, where their scripts can do no harm."""
    done = await machine.execute(_CONFIGURE, timeout_s=CONFIGURE_TIMEOUT_S)
    if done.status != 0:
        said = tail(f"{done.stdout}\n{done.stderr}".encode())
        raise MachineStartError(
            f"Debian packages of the manifest's `image` could not be set up:\n{said}",
            hint="leave out of `image` what dpkg names last",
        )


async def _warm_up(machine: Machine, code: str) -> str:
    """Do once what every session will do; the kernel's nonce, if it is one that has it."""
    result = await machine.run(code, timeout_s=KERNEL_TIMEOUT_S)
    if code and result.status != "ok":
        how = f"{result.error_name}: {result}" if result.status == "error" else result.status
        raise MachineStartError(f"the kernel's first cell ended with {how}")
    await machine.freeze(timeout_s=KERNEL_TIMEOUT_S)
    awake = await machine.wake(reseed=True, timeout_s=KERNEL_TIMEOUT_S)
    return awake.nonce


async def _save(machine: Machine, staged: Layer) -> None:
    await machine.execute(["sync"])
    await machine.freeze(timeout_s=BOOT_TIMEOUT_S)
    monitor = await machine.monitor()
    await monitor.stop()
    await monitor.save_devices(staged.devices)
    await machine.end("its state is saved as the base checkpoint")
    staged.link_disk(machine.disks.overlay)


def console_tail(console: Path) -> str:
    """The last of what a guest wrote to its console."""
    try:
        return console.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
    except OSError:
        return "(no console)"

"""Which accelerator machines run under here, found out by booting a tiny guest under it."""

import contextlib
import json
import logging
import os
import subprocess
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from branchpoint_vmruntime.errors import HostError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.host import boot_id, cpu_model, tsc_khz
from branchpoint_vmruntime.image.guest_image import GuestImage
from branchpoint_vmruntime.tools import QemuProgram, Tools

log = logging.getLogger(__name__)

DEVICE = Path("/dev/kvm")
DEADLINE_S = 8
SIGN_OF_LIFE = b"branchpoint: this accelerator works"
FORCED = "BRANCHPOINT_ACCEL"

Name = Literal["kvm", "tcg"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """What machines run under, why, and when that was found out."""

    name: Name
    reason: str
    tried_at: datetime


def choose_accelerator(home: Home, tools: Tools, image: GuestImage) -> Accelerator:
    """KVM if a guest really runs under it, else emulation, unless BRANCHPOINT_ACCEL says which.

    The answer is remembered for this boot of the host, this build of QEMU and this processor.
    HostError if KVM is asked for and does not work.
    """
    wanted = os.environ.get(FORCED, "auto") or "auto"
    if wanted not in {"auto", "kvm", "tcg"}:
        raise HostError(f"{FORCED} is {wanted!r}", hint="set it to auto, kvm or tcg")
    if wanted == "tcg":
        return _now("tcg", f"{FORCED}=tcg asks for emulation")
    chosen = _tried(home, tools.qemu, image)
    if wanted == "kvm" and chosen.name != "kvm":
        raise HostError(
            f"{FORCED}=kvm asks for KVM, but {chosen.reason}",
            hint=f"unset {FORCED} to run emulated, or make KVM work for this user",
        )
    return chosen


def _tried(home: Home, qemu: QemuProgram, image: GuestImage) -> Accelerator:
    closed = why_closed(DEVICE)
    if closed:
        return _now("tcg", closed)
    key = f"{boot_id()} {qemu.build} {cpu_model()}"
    memory = home.cache / "accelerator.json"
    remembered = _recall(memory, key)
    if remembered is not None:
        return remembered
    trouble = probe(qemu, image, "kvm")
    found = _now("tcg", trouble) if trouble else _now("kvm", "a guest booted under KVM")
    _remember(memory, key, found)
    return found


def why_closed(device: Path) -> str:
    """Why this user cannot use KVM's device, or nothing."""
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return f"this host has no {device}"
    except OSError as error:
        return f"{device} cannot be opened: {error.strerror}"
    return ""


def probe(qemu: QemuProgram, image: GuestImage, accelerator: Name) -> str:
    """Why a guest does not run under the accelerator, or nothing if one was seen to run."""
    started = time.monotonic()
    done = subprocess.run(
        probe_argv(qemu, image.kernel, image.probe, accelerator),
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    if SIGN_OF_LIFE in done.stdout:
        return ""
    if time.monotonic() - started >= DEADLINE_S:
        return f"{DEVICE} opens, but a guest under it does nothing for {DEADLINE_S} s"
    said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
    tried = f"{DEVICE} opens, but " if accelerator == "kvm" else ""
    return f"{tried}QEMU does not start a guest under {accelerator}: {said[-1]}"


def probe_argv(qemu: QemuProgram, kernel: Path, initramfs: Path, accelerator: Name) -> list[str]:
    """The command that boots the tiny guest, and ends by itself whatever becomes of us."""
    processor = "host" if accelerator == "kvm" else "max"
    # An emulated guest with neither PIT nor PIC never finds out its TSC's rate by itself.
    clock = f" tsc=reliable tsc_early_khz={tsc_khz()}" if accelerator == "tcg" else ""
    return [
        "timeout", "--foreground", "--signal=KILL", str(DEADLINE_S), *qemu.argv_prefix,
        "-M", "microvm,acpi=on,pit=off,pic=off,rtc=on", *qemu.firmware_args,
        "-accel", accelerator, "-cpu", processor, "-m", "128", "-smp", "1",
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-serial", "stdio", "-kernel", str(kernel), "-initrd", str(initramfs),
        "-append", f"console=ttyS0 quiet reboot=t panic=-1{clock}",
    ]  # fmt: skip


def _now(name: Name, reason: str) -> Accelerator:
    return Accelerator(name=name, reason=reason, tried_at=datetime.now(UTC))


def _remember(memory: Path, key: str, found: Accelerator) -> None:
    facts = {**asdict(found), "tried_at": found.tried_at.isoformat(), "key": key}
    part = memory.with_suffix(f".{os.getpid()}")
    try:
        part.write_text(json.dumps(facts) + "\n")
        part.replace(memory)
    except OSError as error:
        log.warning("what machines run under has to be tried again the next time: %s", error)
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _recall(memory: Path, key: str) -> Accelerator | None:
    try:
        raw = json.loads(memory.read_text())
        if raw["key"] != key or raw["name"] not in {"kvm", "tcg"}:
            return None
        return Accelerator(
            name="kvm" if raw["name"] == "kvm" else "tcg",
            reason=str(raw["reason"]),
            tried_at=datetime.fromisoformat(raw["tried_at"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None

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
from branchpoint_vmruntime.host import boot_id, cpu_model
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """How a tiny guest fared under KVM: it ran, QEMU ended with last words, or nothing came."""

    ran: bool
    last_words: str | None
    tried_at: datetime

    def outcome(self) -> Accelerator:
        """What follows from it, in words of today's: a result is remembered longer than those."""
        if self.ran:
            return Accelerator(
                name="kvm", reason="a guest booted under KVM", tried_at=self.tried_at
            )
        trouble = (
            f"a guest under it does nothing for {DEADLINE_S} s"
            if self.last_words is None
            else f"QEMU does not start a guest under it: {self.last_words}"
        )
        return Accelerator(
            name="tcg", reason=f"{DEVICE} opens, but {trouble}", tried_at=self.tried_at
        )


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
    chosen = _probed(home, tools.qemu, image)
    if wanted == "kvm" and chosen.name != "kvm":
        raise HostError(
            f"{FORCED}=kvm asks for KVM, but {chosen.reason}",
            hint=f"unset {FORCED} to run emulated, or make KVM work for this user",
        )
    return chosen


def _probed(home: Home, qemu: QemuProgram, image: GuestImage) -> Accelerator:
    closed = why_closed(DEVICE)
    if closed:
        return _now("tcg", closed)
    key = f"{boot_id()} {qemu.build} {cpu_model()}"
    memory = home.cache / "accelerator.json"
    result = _recall(memory, key)
    if result is None:
        result = probe_kvm(qemu, image)
        _remember(memory, key, result)
    return result.outcome()


def why_closed(device: Path) -> str:
    """Why this user cannot use KVM's device, or nothing."""
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return f"this host has no {device}"
    except OSError as error:
        return f"{device} cannot be opened: {error.strerror}"
    return ""


def probe_kvm(qemu: QemuProgram, image: GuestImage) -> ProbeResult:
    """Boot the tiny guest under KVM and see whether it gives a sign of life."""
    started = time.monotonic()
    done = subprocess.run(
        probe_argv(qemu, image.kernel, image.probe),
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    silent = time.monotonic() - started >= DEADLINE_S
    said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
    return ProbeResult(
        ran=SIGN_OF_LIFE in done.stdout,
        last_words=None if silent else said[-1],
        tried_at=datetime.now(UTC),
    )


def probe_argv(qemu: QemuProgram, kernel: Path, initramfs: Path) -> list[str]:
    """The command that boots the tiny guest, and ends by itself whatever becomes of us."""
    return [
        "timeout", "--foreground", "--signal=KILL", str(DEADLINE_S), *qemu.argv_prefix,
        "-M", "microvm,acpi=on,pit=off,pic=off,rtc=on", *qemu.firmware_args,
        "-accel", "kvm", "-cpu", "host", "-m", "128", "-smp", "1",
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-serial", "stdio", "-kernel", str(kernel), "-initrd", str(initramfs),
        "-append", "console=ttyS0 quiet reboot=t panic=-1",
    ]  # fmt: skip


def _now(name: Name, reason: str) -> Accelerator:
    return Accelerator(name=name, reason=reason, tried_at=datetime.now(UTC))


def _remember(memory: Path, key: str, result: ProbeResult) -> None:
    facts = {**asdict(result), "tried_at": result.tried_at.isoformat(), "key": key}
    part = memory.with_suffix(f".{os.getpid()}")
    try:
        part.write_text(json.dumps(facts) + "\n")
        part.replace(memory)
    except OSError as error:
        log.warning("what machines run under has to be tried again the next time: %s", error)
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _recall(memory: Path, key: str) -> ProbeResult | None:
    try:
        raw = json.loads(memory.read_text())
        if raw["key"] != key:
            return None
        ran, last_words = raw["ran"], raw["last_words"]
        if not isinstance(ran, bool) or not isinstance(last_words, str | None):
            return None
        tried_at = datetime.fromisoformat(raw["tried_at"])
        return ProbeResult(ran=ran, last_words=last_words, tried_at=tried_at)
    except (OSError, ValueError, KeyError, TypeError):
        return None

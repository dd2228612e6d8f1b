"""What a machine should be: frozen descriptions, no behaviour."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSize:
    """How large the guest is."""

    memory_mib: int = 1024
    vcpus: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestMemory:
    """The file the guest's memory is mapped from.

    Shared, the guest writes the file itself: only for the one machine that makes a base image.
    Otherwise the mapping is private, so that pages are shared with every other machine on the file
    until one writes them.
    """

    path: Path
    shared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Disks:
    """The read-only root, and the chain of qcow2 layers above which the machine writes.

    `layers` starts with the template and ends with the newest immutable overlay; `overlay` is the
    machine's own.
    """

    root: Path
    layers: tuple[Path, ...]
    overlay: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """Start from a kernel."""

    kernel: Path
    initramfs: Path
    tsc_khz: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """Start from saved device state, read from an inherited descriptor."""

    state_fd: int


@dataclass(frozen=True, slots=True)
class StandBy:
    """Start without a state, ready to be told which one to load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A virtio-serial port whose host end is an inherited socket."""

    name: str
    fd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulator:
    """Which QEMU, and under which accelerator: `kvm` or `tcg`."""

    argv: tuple[str, ...]
    accelerator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSpec:
    """One QEMU process, whole."""

    emulator: Emulator
    size: MachineSize
    memory: GuestMemory
    disks: Disks
    start: Boot | Incoming | StandBy
    ports: tuple[Port, ...]
    monitor_fd: int
    console: Path

"""From a machine's spec to QEMU's arguments, one small function per device. Pure."""

import json
from pathlib import Path
from typing import assert_never

from branchpoint_vmruntime.spec import (
    Boot,
    Disks,
    Emulator,
    GuestMemory,
    Incoming,
    MachineSize,
    MachineSpec,
    Port,
    StandBy,
)

DISK_DEVICE = "disk"


def command_line(spec: MachineSpec) -> list[str]:
    """Everything QEMU is started with.

    Both sides of a checkpoint must give the same devices in the same order.
    """
    return [
        *spec.emulator.argv,
        *machine_args(),
        *accelerator_args(spec.emulator),
        *size_args(spec.size),
        *memory_args(spec.memory, spec.size),
        *sandbox_args(),
        *console_args(spec.console),
        *monitor_args(spec.monitor_fd),
        *ports_args(spec.ports),
        *root_args(spec.disks.root),
        *disk_args(spec.disks),
        *start_args(spec.start, accelerator=spec.emulator.accelerator),
    ]


def machine_args() -> list[str]:
    """The microvm machine, with what makes its device state loadable apart from its memory.

    `xen-save-devices-state` writes neither a configuration section nor a description, so loading
    must expect neither. pit and pic are off and acpi is on: without acpi Debian's kernel finds no
    virtio device, and with them a loaded host fails the guest's timer calibration (QEMU 7.2 and
    10.0, Linux 6.1 and 6.12).
    """
    return [
        "-M", "microvm,suppress-vmdesc=on,acpi=on,pit=off,pic=off,rtc=on,memory-backend=ram",
        "-global", "migration.send-configuration=off",
        "-nodefaults", "-no-user-config", "-no-reboot",
        "-display", "none",
    ]  # fmt: skip


def accelerator_args(emulator: Emulator) -> list[str]:
    """The accelerator and the CPU model that suits it.

    Emulated: `max`, because an Intel model turns on page-table isolation in the guest and costs a
    second of boot. Without ERMS, which would have every copy of bytes made one byte at a time, and
    without FSRM, which newer QEMUs name: Linux 6.1 does not boot where only that one is named.
    """
    if emulator.accelerator == "kvm":
        return ["-accel", "kvm", "-cpu", "host,migratable=on"]
    return ["-accel", "tcg,thread=single,tb-size=256", "-cpu", "max,erms=off,fsrm=off"]


def size_args(size: MachineSize) -> list[str]:
    """Memory and vCPUs."""
    return ["-m", f"{size.memory_mib}M", "-smp", str(size.vcpus)]


def memory_args(memory: GuestMemory, size: MachineSize) -> list[str]:
    """The file the guest's memory is mapped from."""
    share = "on" if memory.shared else "off"
    place = f"mem-path={escaped(memory.path)},share={share}"
    backend = f"memory-backend-file,id=ram,size={size.memory_mib}M,{place}"
    return ["-object", backend]


def sandbox_args() -> list[str]:
    """QEMU's own seccomp filter: it may start no process and change no identity."""
    return ["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"]


def console_args(console: Path) -> list[str]:
    """Where the guest's console is written."""
    return [
        "-chardev", f"file,id=console,path={escaped(console)},append=on",
        "-serial", "chardev:console",
    ]  # fmt: skip


def monitor_args(fd: int) -> list[str]:
    """The monitor, on an inherited socket.

    No path, so nothing to race for and nothing left behind.
    """
    return [
        "-chardev", f"socket,id=monitor,fd={fd}",
        "-mon", "chardev=monitor,mode=control",
    ]  # fmt: skip


def ports_args(ports: tuple[Port, ...]) -> list[str]:
    """One virtio-serial bus and a port for each link."""
    args = ["-device", f"virtio-serial-device,max_ports={len(ports) + 1}"]
    for port in ports:
        args += [
            "-chardev", f"socket,id={port.name},fd={port.fd}",
            "-device", f"virtserialport,chardev={port.name},name={port.name}",
        ]  # fmt: skip
    return args


def root_args(root: Path) -> list[str]:
    """The read-only root file system, the guest's /dev/vda."""
    node = {
        "driver": "raw",
        "node-name": "root",
        "read-only": True,
        "file": {"driver": "file", "filename": str(root)},
    }
    return ["-blockdev", json.dumps(node), "-device", "virtio-blk-device,drive=root"]


def disk_args(disks: Disks) -> list[str]:
    """The writable disk, /dev/vdb: the machine's overlay above its chain of immutable layers.

    Backing files are given here and not taken from the files' headers, so layers can be moved or
    linked.
    """
    args: list[str] = []
    below: str | None = None
    for place, path in enumerate((*disks.layers, disks.overlay)):
        name = f"layer-{place}"
        node = disk_node(name, path, read_only=path != disks.overlay, below=below)
        args += ["-blockdev", json.dumps(node)]
        below = name
    return [*args, "-device", f"virtio-blk-device,id={DISK_DEVICE},drive={overlay_node(disks)}"]


def overlay_node(disks: Disks) -> str:
    """The name of the node the machine writes to when it starts."""
    return f"layer-{len(disks.layers)}"


def disk_node(name: str, path: Path, *, read_only: bool, below: str | None) -> dict[str, object]:
    """One qcow2 layer.

    Flushes stay in the page cache: only checkpoints must last, and they are synced when made.
    """
    return {
        "driver": "qcow2",
        "node-name": name,
        "read-only": read_only,
        "discard": "unmap",
        "cache": {"no-flush": True},
        "file": {"driver": "file", "filename": str(path), "cache": {"no-flush": True}},
        "backing": below,
    }


def start_args(start: Boot | Incoming | StandBy, *, accelerator: str) -> list[str]:
    """Boot a kernel, or load saved device state, now or when told to."""
    match start:
        case Boot():
            return [
                "-kernel", str(start.kernel),
                "-initrd", str(start.initramfs),
                "-append", kernel_command_line(start.tsc_khz, accelerator=accelerator),
            ]  # fmt: skip
        case Incoming():
            return ["-incoming", f"fd:{start.state_fd}"]
        case StandBy():
            return ["-incoming", "defer"]
        case _:
            assert_never(start)


def escaped(path: Path) -> str:
    """A path inside an option of the form `key=value,…`, where QEMU wants commas doubled.

    >>> escaped(Path("/home/a,b"))
    '/home/a,,b'
    """
    return str(path).replace(",", ",,")


def kernel_command_line(tsc_khz: int, *, accelerator: str) -> str:
    """The guest kernel's parameters.

    Emulated, the guest's TSC is the host's but its calibration fails on a loaded host and the boot
    hangs (0 of 3 came up), so the rate is given. Address randomisation is off there, since the
    translator shares its work between processes only where they run at the same addresses.
    `reboot=t` and `panic=-1` make QEMU end.
    """
    common = "console=ttyS0 quiet reboot=t panic=-1"
    if accelerator == "kvm":
        return common
    return (
        f"{common} tsc_early_khz={tsc_khz} tsc=reliable mitigations=off init_on_alloc=0 norandmaps"
    )

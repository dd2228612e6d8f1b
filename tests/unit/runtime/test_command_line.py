"""QEMU's arguments: a pure function of the spec, the same devices for booting and for loading."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.runtime.machines import a_spec

from branchpoint_vmruntime.command_line import (
    accelerator_args,
    command_line,
    disk_args,
    escaped,
    kernel_command_line,
    overlay_node,
)
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

FOLDER = Path("/home/me/a, b/branchpoint")
BOOT = Boot(kernel=FOLDER / "vmlinuz", initramfs=FOLDER / "initramfs", tsc_khz=2_095_078)
STARTS = (BOOT, Incoming(state_fd=9), StandBy())
Start = Boot | Incoming | StandBy
KVM = Emulator(argv=("qemu",), accelerator="kvm")
TCG = Emulator(argv=("qemu",), accelerator="tcg")


def values(args: list[str], flag: str) -> list[str]:
    """What is given with each occurrence of a flag."""
    return [args[at + 1] for at, arg in enumerate(args) if arg == flag]


def nodes(args: list[str]) -> list[dict[str, Any]]:
    """The block device nodes."""
    return [json.loads(value) for value in values(args, "-blockdev")]


def without(args: list[str], *flags: str) -> list[str]:
    """The arguments without those flags and their values."""
    gone = {at for at, arg in enumerate(args) if arg in flags}
    return [arg for at, arg in enumerate(args) if at not in gone and at - 1 not in gone]


@pytest.mark.parametrize("start", STARTS, ids=lambda start: type(start).__name__)
@pytest.mark.parametrize("emulator", [KVM, TCG], ids=["kvm", "tcg"])
def test_the_same_spec_always_gives_the_same_arguments(start: Start, emulator: Emulator) -> None:
    spec = replace(a_spec(FOLDER), start=start, emulator=emulator)
    assert command_line(spec) == command_line(replace(spec))


@pytest.mark.parametrize("start", STARTS, ids=lambda start: type(start).__name__)
@pytest.mark.parametrize("emulator", [KVM, TCG], ids=["kvm", "tcg"])
def test_only_the_start_arguments_tell_booting_from_loading(
    start: Start, emulator: Emulator
) -> None:
    spec = replace(a_spec(FOLDER), emulator=emulator)
    flags = ("-kernel", "-initrd", "-append", "-incoming")
    same = without(command_line(replace(spec, start=BOOT)), *flags)
    assert without(command_line(replace(spec, start=start)), *flags) == same


def test_a_machine_boots_a_kernel_or_loads_a_state_now_or_when_told() -> None:
    boot, load, stand_by = (command_line(replace(a_spec(FOLDER), start=it)) for it in STARTS)
    assert values(boot, "-kernel") == [str(BOOT.kernel)]
    assert values(boot, "-initrd") == [str(BOOT.initramfs)]
    assert values(boot, "-append") == [kernel_command_line(BOOT.tsc_khz, accelerator="tcg")]
    assert values(load, "-incoming") == ["fd:9"]
    assert values(stand_by, "-incoming") == ["defer"]
    assert "-incoming" not in boot


def test_the_devices_are_the_same_however_long_the_disk_chain_is() -> None:
    spec = a_spec(FOLDER)
    deep = replace(spec.disks, layers=(*spec.disks.layers, FOLDER / "b", FOLDER / "c"))
    shallow, longer = (command_line(replace(spec, disks=disks)) for disks in (spec.disks, deep))
    assert [device.partition(",drive=")[0] for device in values(shallow, "-device")] == [
        device.partition(",drive=")[0] for device in values(longer, "-device")
    ]


def test_the_emulator_s_own_command_comes_first() -> None:
    loader = Emulator(argv=("/tools/ld.so", "/tools/qemu", "-L", "/tools/fw"), accelerator="tcg")
    args = command_line(replace(a_spec(FOLDER), emulator=loader))
    assert args[:4] == list(loader.argv)


def words(spec: MachineSpec) -> str:
    """All arguments in one text, without the paths."""
    return " ".join(command_line(spec)).replace(str(FOLDER), "").replace(escaped(FOLDER), "")


@pytest.mark.parametrize("start", STARTS, ids=lambda start: type(start).__name__)
def test_there_is_never_a_network(start: Start) -> None:
    args = words(replace(a_spec(FOLDER), start=start))
    for network in ("netdev", "-nic", "-net", "virtio-net", "vhost", "vsock", "hostfwd"):
        assert network not in args
    assert "-nodefaults" in args.split()


@pytest.mark.parametrize("start", STARTS, ids=lambda start: type(start).__name__)
@pytest.mark.parametrize("emulator", [KVM, TCG], ids=["kvm", "tcg"])
def test_the_sandbox_is_always_on_and_forbids_starting_processes(
    start: Start, emulator: Emulator
) -> None:
    args = command_line(replace(a_spec(FOLDER), start=start, emulator=emulator))
    [sandbox] = values(args, "-sandbox")
    assert sandbox.split(",")[0] == "on"
    assert {"spawn=deny", "elevateprivileges=deny", "obsolete=deny"} <= set(sandbox.split(","))


def test_nothing_listens_on_a_path_or_a_port() -> None:
    sockets = [v for v in values(command_line(a_spec(FOLDER)), "-chardev") if "socket" in v]
    assert len(sockets) == 4
    assert all(",fd=" in value and "path=" not in value for value in sockets)
    assert "server" not in words(a_spec(FOLDER))


def unescaped(value: str) -> dict[str, str]:
    """An option list as QEMU takes it apart: two commas are one, one ends a value."""
    parts = [part.replace("\0", ",") for part in value.replace(",,", "\0").split(",")]
    return {name: rest for name, _, rest in (part.partition("=") for part in parts)}


PATHS = st.text(
    st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1
).map(lambda text: Path("/", text.strip("/") or "x"))


@given(PATHS)
def test_a_path_with_commas_stays_one_value(path: Path) -> None:
    memory = GuestMemory(path=path, shared=False)
    spec = replace(a_spec(FOLDER), memory=memory, console=path)
    args = command_line(spec)
    backend = unescaped(values(args, "-object")[0])
    console = unescaped(next(v for v in values(args, "-chardev") if "id=console" in v))
    assert backend["mem-path"] == console["path"] == str(path)


@given(PATHS)
def test_disk_paths_are_kept_whole(path: Path) -> None:
    disks = Disks(root=path, layers=(path / "a",), overlay=path / "b")
    found = [node["file"]["filename"] for node in nodes(command_line(a_spec_with(disks)))]
    assert found == [str(path), str(path / "a"), str(path / "b")]


def a_spec_with(disks: Disks) -> MachineSpec:
    """A spec with these disks."""
    return replace(a_spec(FOLDER), disks=disks)


@given(st.integers(0, 40))
def test_each_disk_layer_stands_on_the_one_before_it(depth: int) -> None:
    layers = tuple(FOLDER / f"disk-{place}" for place in range(depth))
    disks = Disks(root=FOLDER / "root", layers=layers, overlay=FOLDER / "overlay")
    chain = nodes(disk_args(disks))
    below = [None, *(node["node-name"] for node in chain)]
    assert [node["backing"] for node in chain] == below[:-1]
    assert len({node["node-name"] for node in chain}) == depth + 1


def test_only_the_machine_s_own_overlay_is_written() -> None:
    spec = a_spec(FOLDER)
    *below, top = nodes(command_line(spec))
    assert all(node["read-only"] for node in below)
    assert top["read-only"] is False
    assert top["file"]["filename"] == str(spec.disks.overlay)


def test_the_disk_is_the_top_of_the_chain() -> None:
    spec = a_spec(FOLDER)
    args = command_line(spec)
    assert nodes(args)[-1]["node-name"] == overlay_node(spec.disks)
    assert f"virtio-blk-device,id=disk,drive={overlay_node(spec.disks)}" in values(args, "-device")


def test_memory_is_private_unless_it_is_the_base_being_written() -> None:
    for shared, word in ((False, "off"), (True, "on")):
        memory = GuestMemory(path=Path("/m"), shared=shared)
        [backend] = values(command_line(replace(a_spec(FOLDER), memory=memory)), "-object")
        assert unescaped(backend)["share"] == word


def test_size_is_told_to_the_machine_and_to_its_memory() -> None:
    spec = replace(a_spec(FOLDER), size=MachineSize(memory_mib=1536, vcpus=3))
    args = command_line(spec)
    assert values(args, "-m") == ["1536M"]
    assert values(args, "-smp") == ["3"]
    assert unescaped(values(args, "-object")[0])["size"] == "1536M"


def test_each_port_is_a_device_of_its_name_on_an_inherited_socket() -> None:
    ports = (Port(name="control", fd=7), Port(name="kernel", fd=8))
    args = command_line(replace(a_spec(FOLDER), ports=ports))
    for port in ports:
        assert f"socket,id={port.name},fd={port.fd}" in values(args, "-chardev")
        assert f"virtserialport,chardev={port.name},name={port.name}" in values(args, "-device")


def test_what_makes_device_state_loadable_apart_from_memory_is_always_there() -> None:
    args = command_line(a_spec(FOLDER))
    assert "migration.send-configuration=off" in values(args, "-global")
    assert "suppress-vmdesc=on" in values(args, "-M")[0].split(",")


def test_the_accelerator_decides_the_cpu() -> None:
    assert accelerator_args(KVM) == ["-accel", "kvm", "-cpu", "host,migratable=on"]
    [accelerator] = values(accelerator_args(TCG), "-accel")
    assert accelerator.split(",")[0] == "tcg"


def test_an_emulated_cpu_names_neither_kind_of_fast_byte_copy_or_its_kernel_never_boots() -> None:
    [cpu] = values(accelerator_args(TCG), "-cpu")
    assert cpu.split(",")[0] == "max"
    assert {"erms=off", "fsrm=off"} <= set(cpu.split(","))


def test_an_emulated_guest_is_told_the_tsc_rate() -> None:
    parameters = kernel_command_line(2_095_078, accelerator="tcg").split()
    assert {"tsc_early_khz=2095078", "tsc=reliable", "mitigations=off"} <= set(parameters)


def test_a_guest_on_kvm_keeps_its_mitigations_and_its_own_measure_of_time() -> None:
    parameters = kernel_command_line(2_095_078, accelerator="kvm")
    assert "mitigations" not in parameters
    assert "tsc" not in parameters
    assert "norandmaps" not in parameters


@pytest.mark.parametrize("accelerator", ["kvm", "tcg"])
def test_a_guest_that_panics_or_reboots_ends(accelerator: str) -> None:
    parameters = kernel_command_line(1, accelerator=accelerator).split()
    assert {"panic=-1", "reboot=t", "console=ttyS0"} <= set(parameters)
    assert "-no-reboot" in command_line(a_spec(FOLDER))

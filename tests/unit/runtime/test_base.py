"""A base is found again by all that decides how it turns out, and by nothing else."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.runtime.studio import FACTS

from branchpoint_vmruntime import base
from branchpoint_vmruntime.base import base_key
from branchpoint_vmruntime.foundation import Foundation
from branchpoint_vmruntime.spec import Emulator, MachineSize, MachineSpec

BASH = ("python3", "-m", "bash_kernel", "-f", "{connection_file}")


def founded(place: str, tsc_khz: int = 2_000_000) -> Foundation:
    """What machines stand on, all of it in one place."""
    folder = Path(place)
    return Foundation(
        emulator=Emulator(argv=(f"{place}/qemu",), accelerator=FACTS.accelerator),
        size=MachineSize(),
        kernel=folder / "vmlinuz",
        initramfs=folder / "initramfs",
        initramfs_digest="guest code",
        root=folder / "root",
        disk_template=folder / "template",
        overlay_template=folder / "empty",
        facts=replace(FACTS, tsc_khz=tsc_khz),
    )


def test_where_it_is_made_and_the_rate_of_the_clock_that_was_measured_do_not_count() -> None:
    assert base_key(founded("/here")) == base_key(founded("/there", tsc_khz=2_000_001))


@pytest.mark.parametrize(
    "change",
    [
        {"initramfs_digest": "other guest code"},
        {"kernel_argv": BASH},
        {"size": MachineSize(memory_mib=2048)},
        {"facts": replace(FACTS, qemu="another")},
    ],
    ids=["guest code", "kernel", "size", "facts"],
)
def test_what_the_machine_is_made_of_counts(change: dict[str, Any]) -> None:
    assert base_key(replace(founded("/here"), **change)) != base_key(founded("/here"))


def test_what_qemu_is_started_with_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = base_key(founded("/here"))
    usual = base.command_line

    def with_one_more(spec: MachineSpec) -> list[str]:
        return [*usual(spec), "-device", "virtio-rng-device"]

    monkeypatch.setattr(base, "command_line", with_one_more)
    assert base_key(founded("/here")) != before


def test_what_the_kernel_is_made_to_do_first_counts_where_it_does_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    python, bash = founded("/here"), replace(founded("/here"), kernel_argv=BASH)
    before = base_key(python), base_key(bash)
    monkeypatch.setattr(base, "_WARM_UP", "pass")
    assert base_key(python) != before[0]
    assert base_key(bash) == before[1]

"""Facts about the host are read as they are."""

import re
from pathlib import Path

from branchpoint_vmruntime import host


def test_the_rate_of_the_counter_is_measured_the_same_twice() -> None:
    first = host.tsc_khz.__wrapped__()
    second = host.tsc_khz.__wrapped__()
    # A guest told a rate that is off by more than 500 ppm would see its clock drift.
    assert abs(first - second) < first / 2000


def test_the_boot_has_a_name() -> None:
    assert re.fullmatch(r"[0-9a-f-]{36}", host.boot_id())
    assert host.boot_id() == host.boot_id()


def test_memory_available_is_part_of_memory_there() -> None:
    memory = host.memory()
    assert 0 < memory.available_bytes <= memory.total_bytes


def test_an_unknown_processor_has_a_name_too() -> None:
    assert host.parse_cpu_model("flags: none\n") == "unknown"


def test_trying_reflink_leaves_nothing_behind(tmp_path: Path) -> None:
    host.has_reflink(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_shared_memory_cannot_share_blocks() -> None:
    assert not host.has_reflink(Path("/dev/shm"))

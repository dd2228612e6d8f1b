"""In words: how a kernel ended."""

from typing import Any

import pytest

from branchpoint_vmruntime.results import RunResult, describe_kernel_end

NO_KILLS = {"kills_for_memory": 0, "memory_limit_bytes": 900 << 20}
OUT_OF_MEMORY = {"kills_for_memory": 2, "memory_limit_bytes": 900 << 20}
INSIDE = "the kernel inside the machine"
ENDS: dict[str, tuple[dict[str, Any], str]] = {
    "by itself": ({"status": 0, **NO_KILLS}, f"{INSIDE} ended with status 0"),
    "in error": ({"status": 3, **NO_KILLS}, f"{INSIDE} ended with status 3"),
    "by a crash": ({"status": -11, **NO_KILLS}, f"{INSIDE} was killed by signal 11"),
    "by a signal": ({"status": -9, **NO_KILLS}, f"{INSIDE} was killed by signal 9"),
    "for memory": (
        {"status": -9, **OUT_OF_MEMORY},
        "the machine ran out of memory: its kernel was killed at the limit of 900 MiB",
    ),
    "by itself, a child for memory": (
        {"status": 0, **OUT_OF_MEMORY},
        f"{INSIDE} ended with status 0",
    ),
}


@pytest.mark.parametrize(("message", "words"), ENDS.values(), ids=ENDS.keys())
def test_the_end_of_a_kernel_is_told_in_words(message: dict[str, Any], words: str) -> None:
    assert describe_kernel_end(message) == words


def test_a_result_is_printed_as_its_text() -> None:
    assert str(RunResult(status="ok", text="42\n", elapsed_ms=1.0)) == "42\n"

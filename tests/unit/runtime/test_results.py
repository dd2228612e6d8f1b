"""In words: how a kernel ended."""

from typing import Any

import pytest

from branchpoint_vmruntime.results import RunResult, describe_kernel_end

NO_KILLS = {"kills_for_memory": 0, "memory_limit_bytes": 900 << 20}
OUT_OF_MEMORY = {"kills_for_memory": 2, "memory_limit_bytes": 900 << 20}
ENDS: list[tuple[dict[str, Any], str]] = [
    ({"status": 0, **NO_KILLS}, "the kernel inside the machine ended with status 0"),
    ({"status": 3, **NO_KILLS}, "the kernel inside the machine ended with status 3"),
    ({"status": -11, **NO_KILLS}, "the kernel inside the machine was killed by signal 11"),
    # Memory ran out for one of its children, some time before.
    ({"status": 0, **OUT_OF_MEMORY}, "the kernel inside the machine ended with status 0"),
    (
        {"status": -9, **OUT_OF_MEMORY},
        "the machine ran out of memory: its kernel was killed at the limit of 900 MiB",
    ),
]


@pytest.mark.parametrize(("message", "words"), ENDS, ids=lambda it: str(it)[:30])
def test_the_end_of_a_kernel_is_told_in_words(message: dict[str, Any], words: str) -> None:
    assert describe_kernel_end(message) == words


def test_a_result_is_printed_as_its_text() -> None:
    assert str(RunResult(status="ok", text="42\n", elapsed_ms=1.0)) == "42\n"

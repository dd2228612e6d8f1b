"""What came of running something in a guest, and of the kernel in it when it ended."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What code run in the kernel gave.

    Its text output with the repr of its value; `str()` is the text.
    """

    status: str
    text: str
    elapsed_ms: float
    error_name: str = ""
    error_value: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What a command run in the guest gave."""

    status: int
    stdout: str
    stderr: str


def describe_kernel_end(message: Mapping[str, Any]) -> str:
    """In words why the kernel inside a machine ended.

    >>> describe_kernel_end({"status": -9, "kills_for_memory": 0})
    'the kernel inside the machine was killed by signal 9'
    """
    status = int(message["status"])
    if status == -signal.SIGKILL and message["kills_for_memory"]:
        limit = int(message["memory_limit_bytes"]) >> 20
        return f"the machine ran out of memory: its kernel was killed at the limit of {limit} MiB"
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return f"the kernel inside the machine {how}"

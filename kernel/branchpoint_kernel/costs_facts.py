"""What is read off a session's operations: how each branch last woke, and in which parts. Pure."""

from collections.abc import Mapping, Sequence
from statistics import median

from branchpoint_vmruntime.lineage import Operation

# What gives a branch its machine. A rollback does more than that, and its parts say which.
WAKINGS = frozenset({"start", "fork", "rollback", "resume", "reopen"})
SPAWN, LOAD, CLOCK, RENEW, KERNEL = "spawn", "load", "clock", "renew", "kernel"
PARTS = (SPAWN, LOAD, CLOCK, RENEW, KERNEL)
_SPAWN_AND_LOAD = ("spawn", "load-and-wake")


def last_wakings(operations: Sequence[Operation]) -> Mapping[str, Mapping[str, float]]:
    """By branch, the parts of its last waking in milliseconds, one after another: `PARTS`."""
    return {
        operation.branch: waking_parts(operation.phases_ms)
        for operation in operations
        if operation.op in WAKINGS and operation.phases_ms.get("load-and-wake")
    }


def waking_parts(phases_ms: Mapping[str, float]) -> Mapping[str, float]:
    """The parts that add up to a waking: what the guest did is no part of the loading.

    >>> waking_parts({"spawn": 3, "load-and-wake": 60, "guest-clock": 8, "guest-kernel": 30})
    {'spawn': 3, 'load': 22.0, 'clock': 8, 'renew': 0.0, 'kernel': 30}
    """
    spawn, both = (phases_ms.get(name, 0.0) for name in _SPAWN_AND_LOAD)
    inside = {name: phases_ms.get(f"guest-{name}", 0.0) for name in (CLOCK, RENEW, KERNEL)}
    load = max(0.0, both - sum(inside.values()))
    return {SPAWN: spawn, LOAD: round(load, 3), **inside}


def latencies(operations: Sequence[Operation]) -> Mapping[str, Sequence[float]]:
    """By operation, in the order of their first, what each took in milliseconds.

    What takes no time, such as giving a branch up, is left out.
    """
    times: dict[str, list[float]] = {}
    for operation in operations:
        if operation.total_ms > 0:
            times.setdefault(operation.op, []).append(operation.total_ms)
    return times


def median_and_often(times_ms: Sequence[float]) -> str:
    """How long at the median, and how often.

    >>> median_and_often([80, 120, 2500]), median_and_often([1234.5])
    ('120 ms, 3 times', '1,234 ms, once')
    """
    often = "once" if len(times_ms) == 1 else f"{len(times_ms)} times"
    return f"{median(times_ms):,.0f} ms, {often}"

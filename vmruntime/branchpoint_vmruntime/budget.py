"""How many machines may live at once, and for how long idle ones may: a manifest's budgets."""

from dataclasses import dataclass

from branchpoint_vmruntime.errors import UsageError

# What a fork that has answered a first cell was measured to have for itself, and some more.
MACHINE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """What a session's live machines may take together; None is no limit.

    `memory_bytes` is host memory that is theirs alone, not what they share.
    """

    memory_bytes: int | None = None
    machines: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdlePause:
    """For how long a branch may be idle before it is paused, in seconds; None is for ever.

    `current_s` is for the branch the session continues as, `others_s` for all others.
    """

    others_s: float | None = 900.0
    current_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How many machines more there is room for, and what in words sets that limit."""

    machines: int
    limit: str

    def require(self, count: int) -> None:
        """UsageError if so many machines more do not fit."""
        if count > self.machines:
            raise UsageError(
                f"there is no room for {count} machine{'s' if count > 1 else ''} more: "
                f"{self.limit}",
                hint=f"at most {self.machines} fit; `%drop` what you are done with",
            )


def room(budgets: Budgets, *, live: int, own_bytes: int, available_bytes: int) -> Room:
    """What is left, when `live` machines have `own_bytes` of memory for themselves already.

    >>> room(Budgets(machines=8), live=6, own_bytes=0, available_bytes=4 << 30).machines
    2
    """
    a_machine = f"a machine takes about {MACHINE_BYTES >> 20} MB"
    limits = [
        Room(
            machines=available_bytes // MACHINE_BYTES,
            limit=f"{a_machine}, and this host has {available_bytes >> 20} MB of memory available",
        )
    ]
    if budgets.memory_bytes is not None:
        left = max(0, budgets.memory_bytes - own_bytes)
        limits.append(
            Room(
                machines=left // MACHINE_BYTES,
                limit=f"{a_machine}, and {left >> 20} MB are left of the manifest's budget of "
                f"{budgets.memory_bytes >> 20} MB",
            )
        )
    if budgets.machines is not None:
        limits.append(
            Room(
                machines=max(0, budgets.machines - live),
                limit=f"the manifest's budget is {budgets.machines}, and {live} live",
            )
        )
    return min(limits, key=lambda it: it.machines)

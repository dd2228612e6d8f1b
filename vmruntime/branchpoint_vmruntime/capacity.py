"""What a session may still have of machines and forks, as of now."""

from collections.abc import Callable, Iterable

from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.budget import Budgets, Room, room
from branchpoint_vmruntime.outside.outside import Outside
from branchpoint_vmruntime.register import Register
from branchpoint_vmruntime.workshop import Workshop


class Capacity:
    """Counts what there is against the host's memory and the manifest's budgets.

    `machines` gives whoever may have a machine: branches, and what is only looked into.
    """

    def __init__(
        self,
        register: Register,
        workshop: Workshop,
        outside: Outside,
        budgets: Budgets,
        machines: Callable[[], Iterable[OwnedBranch]],
    ) -> None:
        self._register = register
        self._workshop = workshop
        self._outside = outside
        self._budgets = budgets
        self._machines = machines

    def room(self) -> Room:
        """How many machines more the host's memory and the budgets have room for."""
        return self._room(self._budgets)

    def require_peek(self) -> None:
        """UsageError if the host has no room for one that is only looked into: no budget counts."""
        self._room(Budgets()).require(1)

    def require_forks(self, count: int) -> None:
        """UsageError, or BudgetError, if so many branches more cannot be."""
        self.room().require(count)
        if self._outside.spending.limits.forks is None:
            return
        made = sum(operation.op == "fork" for operation in self._register.operations())
        self._outside.spending.check_forks(made, count)

    def _room(self, budgets: Budgets) -> Room:
        there = [it for it in self._machines() if it.live and it.live.machine.alive]
        # Asked only if it counts: to read what a process has for itself takes milliseconds.
        counts = budgets.memory_bytes is not None
        uses = [it.memory() for it in there] if counts else []
        return room(
            budgets,
            live=len(there),
            own_bytes=sum(use.own_bytes for use in uses if use),
            available_bytes=self._workshop.available_bytes(),
        )

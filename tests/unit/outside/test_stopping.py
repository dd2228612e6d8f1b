"""What stops a branch: its own time, and memory that all take together."""

import pytest

from branchpoint_vmruntime.errors import BudgetError
from branchpoint_vmruntime.ledger import Entry
from branchpoint_vmruntime.outside.costs import Costs
from branchpoint_vmruntime.outside.facts import Limits
from branchpoint_vmruntime.outside.limits import Spending
from branchpoint_vmruntime.outside.stopping import Stopping

MIB = 1 << 20


class NoEntries:
    """A ledger nothing was written into."""

    def entries(self, session: str, *, since: int = 0, branch: str | None = None) -> list[Entry]:
        """None."""
        return []


def stopping(
    own_mib: dict[str, int], *, time_s: float | None = None, memory_mib: int | None = None
) -> tuple[Stopping, Spending]:
    spending = Spending(Limits(wall_s=time_s), Costs(NoEntries()), session="s")
    limit = None if memory_mib is None else memory_mib * MIB
    made = Stopping(spending, limit, lambda: {name: own * MIB for name, own in own_mib.items()})
    return made, spending


def test_only_the_branch_whose_time_is_up_may_run_no_more() -> None:
    it, spending = stopping({}, time_s=10)
    spending.count_time("a", 10)
    spending.count_time("b", 9)
    it.require("b")
    with pytest.raises(BudgetError, match="'a'") as refused:
        it.require("a")
    assert "--raise time=" in refused.value.hint


def test_over_the_memory_budget_the_largest_branch_is_stopped_until_they_take_less() -> None:
    own = {"a": 100, "b": 300}
    it, _ = stopping(own, memory_mib=350)
    it.weigh()
    it.require("a")
    with pytest.raises(BudgetError, match=r"350 MB of memory .* 400 MB .* 'b' most with 300 MB"):
        it.require("b")
    own["b"] = 200
    it.weigh()
    it.require("b")


def test_without_budgets_nothing_is_stopped() -> None:
    it, spending = stopping({"a": 10_000})
    spending.count_time("a", 1e9)
    it.weigh()
    it.require("a")

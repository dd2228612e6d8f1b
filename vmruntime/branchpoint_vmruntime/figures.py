"""The figures of a session that move by themselves: memory, time, what was spent.

They are told apart from the rest of what is shown, which is large and changes with what is done.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from branchpoint_vmruntime.branch_seam import Branch, MemoryUse
from branchpoint_vmruntime.control_facts import to_json
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.outside.costs import BranchCost
from branchpoint_vmruntime.session import Session

# By the name of a live branch, a `BranchFigures` as JSON.
Figures = Mapping[str, Mapping[str, Any]]

# While figures move they are looked at as often as this, in seconds; while they hardly do, or
# nobody sees them, as seldom as that.
QUICK_S, SLOW_S = 1.0, 5.0
# Less than this part of what it was is hardly a move, of what grows bit by bit.
_HARDLY = 0.01
_BIT_BY_BIT = frozenset({"own_bytes", "shared_bytes", "lived_s"})
# Sizes are shown in megabytes: what moves less than that is no news.
_STEP_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchFigures:
    """What of a live branch is another while nothing was done. The fields are as in its view.

    Memory is in whole megabytes, `lived_s` in whole seconds.
    """

    own_bytes: int | None
    shared_bytes: int | None
    lived_s: float
    requests: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    micros: int = 0


async def figures_of(session: Session) -> Figures:
    """The figures of the live branches of a session that this process has open."""
    live = [it for it in session.branches() if it.state is BranchState.LIVE]
    # Read from the kernel's tables, milliseconds for each GB.
    uses = await asyncio.to_thread(memories, live)
    spent = {it.branch: it for it in session.outside.costs.by_branch(session.record.id)}
    lived = session.outside.spending.time_used_s
    return {
        it.name: to_json(_figures(uses.get(it.name), lived(it.name), spent.get(it.name)))
        for it in live
    }


def memories(branches: Sequence[Branch]) -> dict[str, MemoryUse | None]:
    """The memory of branches, by name; None of those that have just ended. Takes a while."""
    return {branch.name: branch.memory() for branch in branches}


class Pace:
    """How soon figures are to be looked at again, `wait_s`: seldom while they hardly move."""

    def __init__(self) -> None:
        self.wait_s = QUICK_S
        self._last: Figures = {}

    def hurry(self) -> None:
        """All has been told anew, and may move from now on."""
        self.wait_s, self._last = QUICK_S, {}

    def is_news(self, figures: Figures) -> bool:
        """Whether these are others than the last, which they are from now on."""
        last, self._last = self._last, figures
        self.wait_s = QUICK_S if _have_moved(last, figures) else min(2 * self.wait_s, SLOW_S)
        return figures != last


def _figures(use: MemoryUse | None, lived_s: float, cost: BranchCost | None) -> BranchFigures:
    spent = cost or BranchCost(branch="")
    return BranchFigures(
        own_bytes=use and _rounded(use.own_bytes),
        shared_bytes=use and _rounded(use.shared_bytes),
        lived_s=round(lived_s),
        requests=spent.requests,
        sent_bytes=spent.sent_bytes,
        received_bytes=spent.received_bytes,
        tokens_in=spent.tokens_in,
        tokens_out=spent.tokens_out,
        micros=spent.micros,
    )


def _rounded(count: int) -> int:
    return round(count / _STEP_BYTES) * _STEP_BYTES


def _have_moved(last: Figures, now: Figures) -> bool:
    return last.keys() != now.keys() or any(
        _has_moved(name, last[branch].get(name), figure)
        for branch, figures in now.items()
        for name, figure in figures.items()
    )


def _has_moved(name: str, last: Any, now: Any) -> bool:
    if name not in _BIT_BY_BIT or last is None or now is None:
        return last != now
    return abs(now - last) > _HARDLY * abs(last)

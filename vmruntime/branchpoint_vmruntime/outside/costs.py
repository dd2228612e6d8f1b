"""What each branch has had from the outside world, summed over the ledger's entries."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from branchpoint_vmruntime.ledger import Decision, Entry, EntryKind, Outcome, OutcomeState
from branchpoint_vmruntime.outside.amounts import money_text
from branchpoint_vmruntime.outside.usage import is_model_call

_COUNTED = (EntryKind.REQUEST, EntryKind.TUNNEL)
_OK_STATUS = range(200, 300)


class Entries(Protocol):
    """What is used of a ledger. The entries come by ascending number."""

    def entries(
        self, session: str, *, since: int = 0, branch: str | None = None
    ) -> Sequence[Entry]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchCost:
    """Sums of one branch. `requests` and `tunnels` are those let out.

    Of model calls, `unpriced` are those whose model has no price, `uncounted` those that may have
    cost something but whose reply did not say what.
    """

    branch: str
    requests: int = 0
    tunnels: int = 0
    refused: int = 0
    replayed: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    micros: int = 0
    unpriced: int = 0
    uncounted: int = 0

    @property
    def tokens(self) -> int:
        """In and out together."""
        return self.tokens_in + self.tokens_out

    def money(self, currency: str) -> str:
        """What was priced, in words."""
        return money_text(self.micros, currency)


class Costs:
    """Sums over a ledger. What can change no more is added up once."""

    def __init__(self, ledger: Entries) -> None:
        self._ledger = ledger
        self._settled: dict[str, _Sums] = {}

    def by_branch(self, session: str) -> list[BranchCost]:
        """One for each branch that asked for anything, in the order of their first requests."""
        settled = self._settled.setdefault(session, _Sums())
        entries = self._ledger.entries(session, since=settled.upto)
        news = next((n for n, entry in enumerate(entries) if _is_under_way(entry)), len(entries))
        for entry in entries[:news]:
            settled.add(entry)
        sums = settled.copy()
        for entry in entries[news:]:
            sums.add(entry)
        return list(sums.branches.values())


class _Sums:
    def __init__(self) -> None:
        self.upto = 0
        self.branches: dict[str, BranchCost] = {}

    def copy(self) -> "_Sums":
        other = _Sums()
        other.upto, other.branches = self.upto, dict(self.branches)
        return other

    def add(self, entry: Entry) -> None:
        self.upto = entry.number
        if entry.draft.kind in _COUNTED:
            branch = entry.draft.branch
            self.branches[branch] = _with(
                self.branches.get(branch) or BranchCost(branch=branch), entry
            )


def _with(cost: BranchCost, entry: Entry) -> BranchCost:
    match entry.draft.decision:
        case Decision.REFUSED:
            return replace(cost, refused=cost.refused + 1)
        case Decision.REPLAYED:
            return replace(cost, replayed=cost.replayed + 1)
        case Decision.ALLOWED:
            pass
    if entry.draft.kind is EntryKind.TUNNEL:
        cost = replace(cost, tunnels=cost.tunnels + 1)
    else:
        cost = replace(cost, requests=cost.requests + 1)
    return cost if entry.outcome is None else _with_outcome(cost, entry, entry.outcome)


def _with_outcome(cost: BranchCost, entry: Entry, outcome: Outcome) -> BranchCost:
    cost = replace(
        cost,
        sent_bytes=cost.sent_bytes + outcome.sent_bytes,
        received_bytes=cost.received_bytes + outcome.received_bytes,
    )
    usage = outcome.usage
    if usage is None:
        return replace(cost, uncounted=cost.uncounted + _may_have_cost(entry, outcome))
    return replace(
        cost,
        tokens_in=cost.tokens_in + usage.tokens_in,
        tokens_out=cost.tokens_out + usage.tokens_out,
        micros=cost.micros + (usage.micros or 0),
        unpriced=cost.unpriced + (usage.micros is None),
    )


def _may_have_cost(entry: Entry, outcome: Outcome) -> bool:
    draft = entry.draft
    if draft.kind is not EntryKind.REQUEST:
        return False
    answered = outcome.status is None or outcome.status in _OK_STATUS
    taken = outcome.state in (OutcomeState.DONE, OutcomeState.UNKNOWN, OutcomeState.ACCEPTED)
    return taken and answered and is_model_call(draft.method, _path(draft.url))


def _is_under_way(entry: Entry) -> bool:
    if entry.draft.kind not in _COUNTED or entry.draft.decision is not Decision.ALLOWED:
        return False
    return entry.outcome is None


def _path(url: str) -> str:
    return "/" + url.partition("://")[2].partition("/")[2]

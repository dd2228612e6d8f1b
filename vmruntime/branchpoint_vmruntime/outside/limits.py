"""What a session may spend: tokens, money and forks of all its branches together, time of each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from branchpoint_vmruntime.errors import BudgetError, UsageError
from branchpoint_vmruntime.outside.amounts import (
    MICROS,
    duration_text,
    money_text,
    parse_duration,
    parse_money,
    parse_whole,
)
from branchpoint_vmruntime.outside.costs import BranchCost
from branchpoint_vmruntime.outside.facts import Limits, Who

NAMES = ("tokens", "money", "forks", "time")


class CostsOfBranches(Protocol):
    """What is used of `Costs`."""

    def by_branch(self, session: str) -> Sequence[BranchCost]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How one limit stands, in its own unit: money in the currency, time in seconds."""

    name: str
    used: float
    limit: float
    words: str


class Spending:
    """Holds a session to its limits.

    A call that is under way counts when it has ended: the last ones may go beyond a limit, the next
    one is refused. A fork does not begin anew, since its calls count for the session; only time is
    counted for each branch by itself, and from the moment this was made.
    """

    def __init__(
        self, limits: Limits, costs: CostsOfBranches, *, session: str, currency: str = "USD"
    ) -> None:
        self.limits = limits
        self._costs = costs
        self._session = session
        self._currency = currency
        self._seconds: dict[str, float] = {}

    @property
    def is_limited(self) -> bool:
        """Whether tokens or money have a limit."""
        return self.limits.tokens is not None or self.limits.money is not None

    def check(self, who: Who) -> None:
        """BudgetError if a model may be asked no more: too many tokens, too much money."""
        tokens, money = self.limits.tokens, self.limits.money
        if tokens is None and money is None:
            return
        costs = self._costs.by_branch(who.session)
        used = sum(cost.tokens for cost in costs)
        if tokens is not None and used >= tokens:
            most = max(costs, key=lambda it: it.tokens, default=None)
            raise BudgetError(
                f"the budget of {tokens} tokens is used up: {used} were used"
                + (_most(most.branch, str(most.tokens)) if most and most.tokens else ""),
                hint=_how_to_raise("tokens", str(2 * max(tokens, used) or 1000)),
            )
        micros = sum(cost.micros for cost in costs)
        if money is not None and micros >= round(money * MICROS):
            most = max(costs, key=lambda it: it.micros, default=None)
            raise BudgetError(
                f"the budget of {self._money(money)} is used up: "
                f"{money_text(micros, self._currency)} were spent"
                + (_most(most.branch, most.money(self._currency)) if most and most.micros else ""),
                hint=_how_to_raise("money", _plain(2 * max(money, micros / MICROS) or 1)),
            )

    def check_forks(self, made: int, wanted: int) -> None:
        """BudgetError if `wanted` forks more than the `made` ones are too many."""
        limit = self.limits.forks
        if limit is not None and made + wanted > limit:
            more = f"{wanted} more {'does' if wanted == 1 else 'do'} not fit"
            raise BudgetError(
                f"the budget is {limit} forks, and {made} were made: {more}",
                hint=_how_to_raise("forks", str(2 * max(limit, made + wanted))),
            )

    def count_time(self, branch: str, seconds: float) -> None:
        """Count time for which the branch had a live machine."""
        self._seconds[branch] = self._seconds.get(branch, 0.0) + seconds

    def time_used_s(self, branch: str) -> float:
        """What was counted for the branch so far."""
        return self._seconds.get(branch, 0.0)

    def time_left_s(self, branch: str) -> float | None:
        """How long the branch may live on; 0 if no longer, None if there is no limit."""
        limit = self.limits.wall_s
        return None if limit is None else max(0.0, limit - self.time_used_s(branch))

    def check_time(self, branch: str) -> None:
        """BudgetError if the branch has no time left."""
        limit = self.limits.wall_s
        if limit is not None and self.time_left_s(branch) == 0:
            raise BudgetError(
                f"the budget of {duration_text(limit)} is used up by the branch {branch!r}: "
                f"its machine has lived for {duration_text(self.time_used_s(branch))}",
                hint=_how_to_raise("time", duration_text(2 * limit)),
            )

    def standings(self, *, forks_made: int = 0) -> list[Standing]:
        """How each limit that is set stands; of time, the branch that has had most."""
        costs = self._costs.by_branch(self._session)
        tokens = sum(cost.tokens for cost in costs)
        micros = sum(cost.micros for cost in costs)
        seconds = max(self._seconds.values(), default=0.0)
        spent = f"{money_text(micros, self._currency)} of {self._money(self.limits.money or 0)}"
        lived = f"{duration_text(seconds)} of {duration_text(self.limits.wall_s or 0)}"
        each = (
            ("tokens", tokens, self.limits.tokens, f"{tokens} of {self.limits.tokens} tokens"),
            ("money", micros / MICROS, self.limits.money, spent),
            ("forks", forks_made, self.limits.forks, f"{forks_made} of {self.limits.forks} forks"),
            ("time", seconds, self.limits.wall_s, f"{lived} for a branch"),
        )
        return [
            Standing(name=name, used=used, limit=limit, words=words)
            for name, used, limit, words in each
            if limit is not None
        ]

    def raise_limit(self, name: str, value: str) -> None:
        """Raise a limit of the manifest; UsageError if that is not above it, or not above its use.

        `name` is one of `NAMES`, `value` is written as in the manifest.
        """
        match name:
            case "tokens":
                raised = replace(self.limits, tokens=parse_whole(value))
            case "money":
                raised = replace(self.limits, money=parse_money(value))
            case "forks":
                raised = replace(self.limits, forks=parse_whole(value))
            case "time":
                raised = replace(self.limits, wall_s=parse_duration(value))
            case _:
                raise UsageError(
                    f"there is no budget {name!r} to raise; there is: {', '.join(NAMES)}"
                )
        self._require_more(name, value, _limit(self.limits, name), _limit(raised, name) or 0)
        self.limits = raised

    def _require_more(self, name: str, value: str, now: float | None, then: float) -> None:
        if now is None:
            raise UsageError(
                f"no budget limits {name}, so there is none to raise",
                hint=f"to set one, write `budgets: {{{name}: {value}}}` in branchpoint.yaml",
            )
        standing = next(it for it in self.standings() if it.name == name)
        if then <= now:
            raise UsageError(
                f"{name}={value} would not raise the budget ({standing.words} are used)",
                hint="a budget can only be raised while the session is open",
            )
        if then <= standing.used:
            raise UsageError(
                f"{name}={value} would leave the budget used up ({standing.words} are used)",
                hint="raise it above what is used",
            )

    def _money(self, amount: float) -> str:
        return money_text(round(amount * MICROS), self._currency)


def _limit(limits: Limits, name: str) -> float | None:
    each: dict[str, float | None] = {
        "tokens": limits.tokens,
        "money": limits.money,
        "forks": limits.forks,
        "time": limits.wall_s,
    }
    return each[name]


def _most(branch: str, amount: str) -> str:
    return f", most of them by the branch {branch!r} ({amount})"


def _plain(amount: float) -> str:
    return f"{amount:.6f}".rstrip("0").rstrip(".")


def _how_to_raise(name: str, value: str) -> str:
    return f"raise it with `%costs --raise {name}={value}`, or in branchpoint.yaml"

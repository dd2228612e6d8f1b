"""How costs look: a table of branches, and what is left of each limit. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from branchpoint_kernel.rendering import Line, note, size
from branchpoint_kernel.tables import table
from branchpoint_vmruntime.branch_seam import MemoryUse
from branchpoint_vmruntime.lineage import BranchState, Operation
from branchpoint_vmruntime.outside.amounts import MICROS, money_text
from branchpoint_vmruntime.outside.costs import BranchCost
from branchpoint_vmruntime.outside.limits import Standing

HEAD = (
    "branch",
    "state",
    "lived",
    "own",
    "shared",
    "disk",
    "requests",
    "sent",
    "received",
    "tokens in",
    "out",
    "money",
    "forks",
)
DROPPED = BranchState.DROPPED.value
COUNTED = tuple(field.name for field in fields(BranchCost) if field.name != "branch")


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchStanding:
    """What a branch has had so far: `lived_s` seconds of a live machine, and what the rest says.

    `disk_bytes` is what its checkpoints hold beyond those before them. None is what is not known.
    """

    name: str
    state: str
    lived_s: float | None
    memory: MemoryUse | None
    disk_bytes: int
    forks: int
    cost: BranchCost


@dataclass(frozen=True, slots=True, kw_only=True)
class CostsTold:
    """All that is told of costs; `gone` are those of branches that are no more on record.

    `operations` is what was done in the session, oldest first; `paused_ms` how long the machine
    stood still for a checkpoint, by its id. `limits` None and an empty `currency` are not known.
    """

    rows: Sequence[BranchStanding]
    gone: Sequence[BranchCost]
    limits: Sequence[Standing] | None
    currency: str
    operations: Sequence[Operation] = ()
    paused_ms: Mapping[str, float] = field(default_factory=dict[str, float])


def costs_lines(told: CostsTold) -> list[Line]:
    """What `%costs` shows."""
    costs = [row.cost for row in told.rows]
    cells = [_row(row, told.currency) for row in told.rows]
    if told.gone:
        cells.append(_sum_row(f"{len(told.gone)} no more", "", total(told.gone), told.currency))
    if len(cells) > 1:
        disk = size(sum(row.disk_bytes for row in told.rows))
        cells.append(_sum_row("together", disk, total([*costs, *told.gone]), told.currency))
    lines = table(HEAD, cells, right=range(2, len(HEAD)))
    lines += _doubts(total([*costs, *told.gone]))
    if told.limits is None:
        return lines
    if not told.limits:
        return [*lines, note("○", "no limits are set", "budgets: in branchpoint.yaml sets them")]
    lines.append(note("●", "limits"))
    lines += [
        Line(" ", it.name, (_used_words(it), f"{left_words(it, told.currency)} left"))
        for it in told.limits
    ]
    return lines


def total(costs: Sequence[BranchCost]) -> BranchCost:
    """The sums over several branches."""
    sums = {field: sum(getattr(cost, field) for cost in costs) for field in COUNTED}
    return BranchCost(branch="", **sums)


def _used_words(standing: Standing) -> str:
    if standing.name != "time":
        return standing.words
    return f"{lived(standing.used)} of {lived(standing.limit)} for a branch"


def left_words(standing: Standing, currency: str) -> str:
    """What is left of a limit."""
    left = max(0.0, standing.limit - standing.used)
    match standing.name:
        case "money":
            return money_text(round(left * MICROS), currency)
        case "time":
            return lived(left)
        case _:
            return f"{left:.0f}"


def lived(seconds: float) -> str:
    """Seconds for people.

    >>> lived(48.4), lived(312), lived(7500)
    ('48 s', '5 min 12 s', '2 h 5 min')
    """
    minutes, rest = divmod(int(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def costs_record(told: CostsTold) -> Mapping[str, Any]:
    """The same in a record: seconds, bytes, millionths of the currency; not what is not known."""
    record: dict[str, Any] = {
        "costs": [
            {
                "branch": row.name,
                "state": row.state,
                "lived_s": None if row.lived_s is None else round(row.lived_s, 1),
                "disk_bytes": row.disk_bytes,
                "forks": row.forks,
                **_sums_record(row.cost),
            }
            for row in told.rows
        ],
        "gone": _sums_record(total(told.gone)),
    }
    if told.currency:
        record["currency"] = told.currency
    if told.limits is not None:
        record["limits"] = [
            {"name": it.name, "used": it.used, "limit": it.limit} for it in told.limits
        ]
    return record


def _sums_record(cost: BranchCost) -> Mapping[str, int]:
    return {field: getattr(cost, field) for field in COUNTED}


def _doubts(cost: BranchCost) -> list[Line]:
    """What the sums do not hold."""
    lines: list[Line] = []
    if cost.unpriced:
        calls = "1 call of a model" if cost.unpriced == 1 else f"{cost.unpriced} calls of models"
        lines.append(note("⚠", f"{calls} without a price", "prices: in branchpoint.yaml"))
    if cost.uncounted:
        calls = "1 call" if cost.uncounted == 1 else f"{cost.uncounted} calls"
        lines.append(note("⚠", f"{calls} of models whose reply did not say what it used"))
    return lines


def _row(row: BranchStanding, currency: str) -> tuple[str, ...]:
    memory = row.memory
    own = size(memory.own_bytes) if memory else ""
    shared = size(memory.shared_bytes) if memory else ""
    spent = _spent(row.cost, currency)
    time = "" if row.lived_s is None else lived(row.lived_s)
    disk = size(row.disk_bytes)
    return (row.name, row.state, time, own, shared, disk, *spent, str(row.forks))


def _sum_row(name: str, disk: str, cost: BranchCost, currency: str) -> tuple[str, ...]:
    return (name, "", "", "", "", disk, *_spent(cost, currency), "")


def _spent(cost: BranchCost, currency: str) -> tuple[str, ...]:
    return (
        str(cost.requests + cost.tunnels),
        size(cost.sent_bytes),
        size(cost.received_bytes),
        str(cost.tokens_in),
        str(cost.tokens_out),
        cost.money(currency),
    )

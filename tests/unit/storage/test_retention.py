"""What goes when a store's budgets are exceeded: never what is needed, the least costly first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.lineage.facts import DAY, a_base, a_branch, a_checkpoint

from branchpoint_vmruntime.lineage import (
    BranchRecord,
    BranchState,
    Checkpoint,
    CheckpointCost,
    CheckpointId,
    CheckpointKind,
)
from branchpoint_vmruntime.storage.retention import Plan, StoreBudgets, plan

NOW = DAY + timedelta(days=100)
KINDS = [kind for kind in CheckpointKind if kind is not CheckpointKind.BASE]


@dataclass(frozen=True)
class Store:
    """A session as retention sees it."""

    checkpoints: Sequence[Checkpoint]
    branches: Sequence[BranchRecord]
    pins: frozenset[CheckpointId]
    start: CheckpointId | None

    def planned(self, budgets: StoreBudgets) -> Plan:
        return plan(
            self.checkpoints,
            self.branches,
            budgets,
            now=NOW,
            pins=self.pins,
            start=self.start,
        )


@st.composite
def stores(draw: st.DrawFn) -> Store:
    """Any tree, any branches on it, any pins."""
    there = [a_base()]
    for number in range(draw(st.integers(0, 14))):
        parent = draw(st.sampled_from(there))
        made = a_checkpoint(
            f"c{number}",
            parent.id,
            label=draw(st.sampled_from([f"checkpoint-{number}", "loaded", ""])),
            kind=draw(st.sampled_from(KINDS)),
            minute=draw(st.integers(0, 100 * 24 * 60)),
            cost=CheckpointCost(memory_bytes=draw(st.integers(0, 100))),
        )
        there.append(made)
    ids = [each.id for each in there]
    heads = draw(st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(BranchState))))
    branches = [a_branch(f"b{n}", head, state=state) for n, (head, state) in enumerate(heads)]
    pins = draw(st.frozensets(st.sampled_from(ids), max_size=3))
    return Store(there, branches, pins, draw(st.none() | st.sampled_from(ids)))


limits = st.none() | st.integers(0, 300)
budgets = st.builds(
    StoreBudgets,
    bytes=limits,
    checkpoints=st.none() | st.integers(0, 10),
    age_s=st.none() | st.integers(0, 100 * 86400),
)


def ids(verdicts: object) -> set[CheckpointId]:
    return {verdict.checkpoint.id for verdict in verdicts}  # type: ignore[attr-defined]


@given(stores(), budgets)
def test_nothing_goes_that_anything_left_descends_from(store: Store, limit: StoreBudgets) -> None:
    gone = ids(store.planned(limit).removed)
    left = [each for each in store.checkpoints if each.id not in gone]
    assert not [each for each in left if each.parent in gone]


@given(stores(), budgets)
def test_nothing_goes_that_a_branch_stands_on_or_starts_from_or_that_is_pinned(
    store: Store, limit: StoreBudgets
) -> None:
    gone = ids(store.planned(limit).removed)
    standing = {b.head for b in store.branches if b.state is not BranchState.DROPPED}
    assert not gone & (standing | store.pins | {store.start})


@given(stores(), budgets)
def test_each_checkpoint_is_told_once_with_a_reason(store: Store, limit: StoreBudgets) -> None:
    found = store.planned(limit)
    told = [*found.removed, *found.kept]
    own = [each.id for each in store.checkpoints if each.kind is not CheckpointKind.BASE]
    assert sorted(verdict.checkpoint.id for verdict in told) == sorted(own)
    assert all(verdict.why for verdict in told)


@given(stores(), budgets)
def test_a_child_goes_before_its_parent(store: Store, limit: StoreBudgets) -> None:
    order = [verdict.checkpoint.id for verdict in store.planned(limit).removed]
    for verdict in store.planned(limit).removed:
        parent = verdict.checkpoint.parent
        if parent is not None and parent in order:
            assert order.index(verdict.checkpoint.id) < order.index(parent)


@given(stores(), budgets)
def test_a_budget_that_is_not_met_has_nothing_left_that_could_go(
    store: Store, limit: StoreBudgets
) -> None:
    found = store.planned(limit)
    # The age of what is left may be over the limit only where something holds it: see `kept`.
    free = [v for v in found.kept if v.why in ("it is within the budgets", "there is no budget")]
    kept = [verdict.checkpoint for verdict in found.kept]
    over = (limit.bytes is not None and sum(v.bytes for v in found.kept) > limit.bytes) or (
        limit.checkpoints is not None and len(kept) > limit.checkpoints
    )
    assert not (over and free)
    if limit.age_s is not None:
        assert all((NOW - v.checkpoint.created_at).total_seconds() <= limit.age_s for v in free)
    assert bool(found.unmet) == over or limit.age_s is not None


@given(stores(), budgets)
def test_nothing_goes_that_the_budgets_do_not_ask_for(store: Store, limit: StoreBudgets) -> None:
    found = store.planned(limit)
    for last in found.removed[-1:]:
        left = [*found.kept, last]
        assert (
            (limit.bytes is not None and sum(v.bytes for v in left) > limit.bytes)
            or (limit.checkpoints is not None and len(left) > limit.checkpoints)
            or (
                limit.age_s is not None
                and (NOW - last.checkpoint.created_at).total_seconds() > limit.age_s
            )
        )


@given(stores(), budgets)
def test_what_is_left_asks_for_nothing_more(store: Store, limit: StoreBudgets) -> None:
    gone = ids(store.planned(limit).removed)
    after = replace(store, checkpoints=[c for c in store.checkpoints if c.id not in gone])
    assert after.planned(limit).removed == ()


@given(stores())
def test_without_budgets_nothing_goes(store: Store) -> None:
    assert store.planned(StoreBudgets()).removed == ()


@pytest.mark.parametrize("kind", [CheckpointKind.SAFETY, CheckpointKind.AUTO])
def test_what_somebody_gave_a_label_later_is_kept_longer(kind: CheckpointKind) -> None:
    there = [
        a_checkpoint("named", label="best-so-far", kind=kind),
        a_checkpoint("plain", label="checkpoint-1", minute=5),
    ]
    found = plan([a_base(), *there], [], StoreBudgets(checkpoints=1), now=NOW)
    assert [verdict.checkpoint.id for verdict in found.removed] == ["plain"]


def test_kinds_go_in_the_order_of_what_they_cost_to_lose() -> None:
    there = [
        a_checkpoint("named", label="loaded"),
        a_checkpoint("plain", label="checkpoint-3", minute=50),
        a_checkpoint("parked", label="parked-1", kind=CheckpointKind.PARKED, minute=40),
        a_checkpoint("paused", label="paused-1", kind=CheckpointKind.PAUSED),
        a_checkpoint("auto", label="auto-1", kind=CheckpointKind.AUTO),
        a_checkpoint("fork", label="fork-1", kind=CheckpointKind.FORK_POINT),
        a_checkpoint("safety", label="before-rollback-1", kind=CheckpointKind.SAFETY),
    ]
    found = plan([a_base(), *there], [], StoreBudgets(checkpoints=0), now=NOW)
    order = [verdict.checkpoint.id for verdict in found.removed]
    assert order[:4] == ["safety", "fork", "auto", "paused"]
    assert set(order[4:6]) == {"parked", "plain"}
    assert order[6] == "named"


def test_of_one_kind_the_older_goes_first_and_of_one_day_the_larger() -> None:
    def safety(name: str, day: int, size: int) -> Checkpoint:
        cost = CheckpointCost(memory_bytes=size)
        minute = day * 24 * 60
        return a_checkpoint(name, kind=CheckpointKind.SAFETY, minute=minute, cost=cost)

    there = [safety("new", 50, 900), safety("small", 1, 10), safety("large", 1, 500)]
    found = plan(there, [], StoreBudgets(checkpoints=0), now=NOW)
    assert [verdict.checkpoint.id for verdict in found.removed] == ["large", "small", "new"]


def test_an_automatic_checkpoint_inside_a_chain_stays() -> None:
    chain = [
        a_base(),
        a_checkpoint("a", kind=CheckpointKind.AUTO),
        a_checkpoint("b", "a", label="loaded"),
    ]
    found = plan(chain, [a_branch(head="b")], StoreBudgets(checkpoints=1), now=NOW)
    assert found.removed == ()
    assert [verdict.why for verdict in found.kept] == [
        "'loaded' descends from it",
        "branch main stands on it",
    ]
    assert found.unmet == ("2 checkpoints are left, and the budget is 1",)


def test_what_a_dropped_branch_stood_on_can_go() -> None:
    there = [a_base(), a_checkpoint("a")]
    dropped = [a_branch(head="a", state=BranchState.DROPPED)]
    found = plan(there, dropped, StoreBudgets(checkpoints=0), now=NOW)
    assert ids(found.removed) == {"a"}


def test_what_was_just_taken_is_spared_by_who_took_it() -> None:
    there = [a_base(), a_checkpoint("a", kind=CheckpointKind.SAFETY)]
    found = plan(there, [], StoreBudgets(bytes=0), now=NOW, spared=frozenset({CheckpointId("a")}))
    assert found.removed == ()


def test_a_clock_that_was_set_back_makes_nothing_old() -> None:
    there = [a_base(), a_checkpoint("a", minute=10)]
    assert plan(there, [], StoreBudgets(age_s=1.0), now=DAY - timedelta(days=9)).removed == ()


def test_an_old_one_stays_while_a_young_one_descends_from_it() -> None:
    there = [a_base(), a_checkpoint("old"), a_checkpoint("young", "old", minute=99 * 24 * 60)]
    found = plan(there, [], StoreBudgets(age_s=2 * 86400.0), now=NOW)
    assert found.removed == ()
    assert found.unmet == ("1 of those left are older than 2 days",)


@pytest.mark.parametrize("shape", ["chain", "fan"])
def test_a_thousand_checkpoints_are_planned(shape: str) -> None:
    there = [a_base()]
    for number in range(1000):
        parent = there[-1].id if shape == "chain" else "base0000"
        there.append(a_checkpoint(f"c{number}", parent, kind=CheckpointKind.AUTO, minute=number))
    found = plan(there, [], StoreBudgets(checkpoints=10), now=NOW)
    assert len(found.removed) == 990

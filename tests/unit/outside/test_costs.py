"""Sums over the ledger, by branch."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.outside.entries import SESSION, FakeLedger, ended, used

from branchpoint_vmruntime.ledger import Decision, EntryKind, OutcomeState
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.outside.costs import BranchCost, Costs


def cost(ledger: FakeLedger) -> BranchCost:
    """Of the one branch there is."""
    [only] = Costs(ledger).by_branch(SESSION)
    return only


def test_bytes_tokens_and_money_add_up_by_branch() -> None:
    ledger = FakeLedger()
    ledger.add(used(100, 10, 25))
    ledger.add(used(7, 3, 5), branch="ridge")
    ledger.add(used(1, 2, 3))
    ledger.add(ended(sent=5, received=7, status=None), kind=EntryKind.TUNNEL)
    assert Costs(ledger).by_branch(SESSION) == [
        BranchCost(
            branch="main",
            requests=2,
            tunnels=1,
            sent_bytes=5,
            received_bytes=7,
            tokens_in=101,
            tokens_out=12,
            micros=28,
        ),
        BranchCost(branch="ridge", requests=1, tokens_in=7, tokens_out=3, micros=5),
    ]


def test_a_ledger_on_disk_adds_up_the_same(tmp_path: Path) -> None:
    fake = FakeLedger()
    fake.add(used(100, 10, 25))
    fake.add(decision=Decision.REFUSED, branch="ridge")
    fake.add()
    fake.add(ended(sent=5, received=7, status=None), kind=EntryKind.TUNNEL, branch="ridge")
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        costs = Costs(ledger)
        for entry in fake.written:
            number = ledger.begin(entry.draft)
            costs.by_branch(SESSION)
            if entry.outcome is not None:
                ledger.end(number, entry.outcome)
        assert costs.by_branch(SESSION) == Costs(fake).by_branch(SESSION)


def test_another_session_s_are_not_counted() -> None:
    ledger = FakeLedger()
    ledger.add(used(100), session="other")
    assert Costs(ledger).by_branch(SESSION) == []


@pytest.mark.parametrize(
    "kind", [EntryKind.WAKE, EntryKind.ONCE, EntryKind.POLICY, EntryKind.SECRET]
)
def test_what_is_no_traffic_is_not_counted(kind: EntryKind) -> None:
    ledger = FakeLedger()
    ledger.add(ended(), kind=kind)
    assert Costs(ledger).by_branch(SESSION) == []


def test_what_was_refused_or_given_again_costs_nothing() -> None:
    ledger = FakeLedger()
    ledger.add(decision=Decision.REFUSED)
    ledger.add(used(100, 10, 25), decision=Decision.REPLAYED)
    assert cost(ledger) == BranchCost(branch="main", refused=1, replayed=1)


def test_a_call_under_way_counts_when_it_ends() -> None:
    ledger = FakeLedger()
    costs = Costs(ledger)
    number = ledger.add()
    assert costs.by_branch(SESSION) == [BranchCost(branch="main", requests=1)]
    ledger.end(number, used(5, micros=0))
    assert costs.by_branch(SESSION) == [BranchCost(branch="main", requests=1, tokens_in=5)]


def test_a_call_without_a_price_is_told_apart_from_one_without_a_usage() -> None:
    ledger = FakeLedger()
    ledger.add(used(5, 1, None))
    ledger.add(ended())
    ledger.add(ended(state=OutcomeState.UNKNOWN, status=None))
    found = cost(ledger)
    assert (found.unpriced, found.uncounted) == (1, 2)


def test_what_cannot_have_cost_anything_is_not_called_uncounted() -> None:
    ledger = FakeLedger()
    ledger.add(ended(status=401))
    ledger.add(ended(state=OutcomeState.FAILED, status=None))
    ledger.add(ended(state=OutcomeState.REFUSED, status=None))
    ledger.add(ended(), url="https://api.example.org/v1/models?of=/v1/responses/x")
    ledger.add(ended(), url="api.example.org:443", kind=EntryKind.TUNNEL)
    assert cost(ledger).uncounted == 0


def test_what_has_ended_is_read_from_the_ledger_once() -> None:
    ledger = FakeLedger()
    costs = Costs(ledger)
    for _ in range(50):
        ledger.add(used(1))
    costs.by_branch(SESSION)
    ledger.read = 0
    ledger.add(used(1))
    assert costs.by_branch(SESSION)[0].tokens_in == 51
    assert ledger.read == 1


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 9), st.booleans()), max_size=12),
    st.randoms(use_true_random=False),
)
def test_asking_in_between_changes_no_sum(
    calls: list[tuple[str, int, bool]], chance: Random
) -> None:
    ledger = FakeLedger()
    asked_often = Costs(ledger)
    late: list[tuple[int, int]] = []
    for branch, tokens, at_once in calls:
        number = ledger.add(used(tokens) if at_once else None, branch=branch)
        if not at_once:
            late.append((number, tokens))
        asked_often.by_branch(SESSION)
    chance.shuffle(late)
    for number, tokens in late:
        ledger.end(number, used(tokens))
        asked_often.by_branch(SESSION)
    assert asked_often.by_branch(SESSION) == Costs(ledger).by_branch(SESSION)
    assert sum(it.tokens for it in asked_often.by_branch(SESSION)) == sum(it[1] for it in calls)


def test_money_is_told_in_words() -> None:
    assert BranchCost(branch="main", micros=12_345).money("EUR") == "0.0123 EUR"

"""What a session may spend, and the words in which it hears that it may no more."""

import pytest
from tests.unit.outside.entries import SESSION, FakeLedger, ended, used

from branchpoint_vmruntime.errors import BudgetError, UsageError
from branchpoint_vmruntime.outside.costs import Costs
from branchpoint_vmruntime.outside.facts import Limits, Who
from branchpoint_vmruntime.outside.limits import NAMES, Spending

WHO = Who(session=SESSION, branch="main", incarnation="one", checkpoint=lambda: "base")
ALL = Limits(tokens=100, money=0.5, forks=10, wall_s=7200)


def spending(limits: Limits, ledger: FakeLedger | None = None) -> Spending:
    return Spending(limits, Costs(ledger or FakeLedger()), session=SESSION, currency="EUR")


def test_below_its_limits_a_branch_may_ask() -> None:
    ledger = FakeLedger()
    ledger.add(used(98, 1, 499_999))
    spending(ALL, ledger).check(WHO)


def test_without_limits_anything_may_be_spent() -> None:
    ledger = FakeLedger()
    ledger.add(used(10**9, 10**9, 10**12))
    it = spending(Limits(), ledger)
    it.check(WHO)
    it.check_forks(10**6, 10**6)
    it.count_time("main", 10**9)
    it.check_time("main")
    assert it.time_left_s("main") is None


def test_used_up_tokens_are_told_with_the_branch_that_used_most() -> None:
    ledger = FakeLedger()
    ledger.add(used(30, 10), branch="ridge")
    ledger.add(used(50, 10), branch="forest")
    with pytest.raises(BudgetError) as caught:
        spending(ALL, ledger).check(WHO)
    assert str(caught.value) == (
        "the budget of 100 tokens is used up: 100 were used, "
        "most of them by the branch 'forest' (60)"
    )
    assert caught.value.hint == (
        "raise it with `%costs --raise tokens=200`, or in branchpoint.yaml"
    )


def test_spent_money_is_told_with_the_branch_that_spent_most() -> None:
    ledger = FakeLedger()
    ledger.add(used(1, 1, 100_000), branch="ridge")
    ledger.add(used(1, 1, 500_000), branch="forest")
    with pytest.raises(BudgetError) as caught:
        spending(ALL, ledger).check(WHO)
    assert str(caught.value) == (
        "the budget of 0.50 EUR is used up: 0.60 EUR were spent, "
        "most of them by the branch 'forest' (0.50 EUR)"
    )
    assert "`%costs --raise money=1.2`" in caught.value.hint


def test_a_call_under_way_counts_only_when_it_has_ended() -> None:
    ledger = FakeLedger()
    it = spending(ALL, ledger)
    number = ledger.add()
    it.check(WHO)
    ledger.end(number, used(1000))
    with pytest.raises(BudgetError, match="1000 were used"):
        it.check(WHO)


def test_calls_that_told_no_usage_use_up_nothing() -> None:
    ledger = FakeLedger()
    ledger.add(ended())
    spending(Limits(tokens=1), ledger).check(WHO)


def test_a_budget_of_nothing_allows_no_call() -> None:
    with pytest.raises(BudgetError, match="the budget of 0 tokens is used up: 0 were used") as it:
        spending(Limits(tokens=0)).check(WHO)
    assert "tokens=1000`" in it.value.hint


def test_forks_fit_up_to_their_limit() -> None:
    spending(ALL).check_forks(8, 2)


def test_forks_beyond_their_limit_are_refused_in_words() -> None:
    with pytest.raises(BudgetError, match="is 10 forks, and 8 were made: 3 more do not fit") as it:
        spending(ALL).check_forks(8, 3)
    assert "`%costs --raise forks=22`" in it.value.hint


def test_time_runs_for_each_branch_by_itself() -> None:
    it = spending(ALL)
    it.count_time("main", 7000)
    it.count_time("ridge", 100)
    it.count_time("main", 100)
    assert (it.time_left_s("main"), it.time_left_s("ridge")) == (100, 7100)


def test_a_branch_out_of_time_hears_it_in_words() -> None:
    it = spending(ALL)
    it.count_time("ridge", 7201)
    assert it.time_left_s("ridge") == 0
    with pytest.raises(BudgetError, match="2h is used up by the branch 'ridge'") as caught:
        it.check_time("ridge")
    assert "`%costs --raise time=4h`" in caught.value.hint
    it.check_time("main")


@pytest.mark.parametrize(
    ("name", "value", "raised"),
    [
        ("tokens", "400000", Limits(tokens=400_000, money=0.5, forks=10, wall_s=7200)),
        ("money", "10", Limits(tokens=100, money=10, forks=10, wall_s=7200)),
        ("forks", "200", Limits(tokens=100, money=0.5, forks=200, wall_s=7200)),
        ("time", "4h", Limits(tokens=100, money=0.5, forks=10, wall_s=14400)),
    ],
)
def test_a_limit_can_be_raised(name: str, value: str, raised: Limits) -> None:
    it = spending(ALL)
    it.raise_limit(name, value)
    assert it.limits == raised


def test_after_raising_it_the_next_call_goes_out() -> None:
    ledger = FakeLedger()
    ledger.add(used(100))
    it = spending(ALL, ledger)
    it.raise_limit("tokens", "101")
    it.check(WHO)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("tokens", "100", "would not raise the budget"),
        ("tokens", "many", "is not a whole number"),
        ("tokens", "", "is not a whole number"),
        ("money", "0.2", "would not raise the budget"),
        ("money", "5 EUR", "is not an amount of money"),
        ("forks", "-1", "is not a whole number"),
        ("time", "10", "is not a time"),
        ("time", "1h", "would not raise the budget"),
        ("memory", "2gb", "there is no budget 'memory' to raise"),
    ],
)
def test_what_raises_nothing_is_refused_and_changes_nothing(
    name: str, value: str, words: str
) -> None:
    it = spending(ALL)
    with pytest.raises(UsageError, match=words):
        it.raise_limit(name, value)
    assert it.limits == ALL


def test_a_limit_is_not_raised_to_what_is_used_already() -> None:
    ledger = FakeLedger()
    ledger.add(used(500))
    with pytest.raises(UsageError, match=r"would leave the budget used up \(500 of 100 tokens"):
        spending(ALL, ledger).raise_limit("tokens", "500")


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_that_is_not_set_cannot_be_raised(name: str) -> None:
    value = "5h" if name == "time" else "5"
    with pytest.raises(UsageError, match=f"no budget limits {name}"):
        spending(Limits()).raise_limit(name, value)


def test_how_the_limits_stand_is_told_in_words() -> None:
    ledger = FakeLedger()
    ledger.add(used(50, 10, 250_000))
    it = spending(ALL, ledger)
    it.count_time("main", 90)
    it.count_time("ridge", 1800)
    assert [standing.words for standing in it.standings(forks_made=3)] == [
        "60 of 100 tokens",
        "0.25 EUR of 0.50 EUR",
        "3 of 10 forks",
        "30m of 2h for a branch",
    ]


def test_only_limits_that_are_set_are_told() -> None:
    assert [standing.name for standing in spending(Limits(forks=3)).standings()] == ["forks"]

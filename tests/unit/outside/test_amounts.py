"""Amounts as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.outside.amounts import (
    duration_text,
    money_text,
    parse_duration,
    parse_money,
    parse_whole,
)


@pytest.mark.parametrize("text", ["", "-1", "1.0", "1e3", "1__0", "_1", "9" * 13, "\u0661", "1k"])
def test_what_is_no_whole_number_is_refused_in_words(text: str) -> None:
    with pytest.raises(UsageError, match="is not a whole number"):
        parse_whole(text)


@pytest.mark.parametrize("text", ["", "-1", "1.", ".5", "1e3", "5 EUR", "nan", "inf", "1.0000001"])
def test_what_is_no_amount_of_money_is_refused_in_words(text: str) -> None:
    with pytest.raises(UsageError, match="is not an amount of money"):
        parse_money(text)


@pytest.mark.parametrize("text", ["", "90", "-1s", "1w", "1h30m", "1 h", "h", "2H"])
def test_what_is_no_time_is_refused_in_words(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time such as 90s"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("2h", 7200), ("1.5d", 129600), ("0s", 0)]
)
def test_a_time_is_a_number_with_its_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@given(st.integers(0, 10**8))
def test_a_time_in_words_means_the_same_seconds(seconds: int) -> None:
    text = duration_text(seconds)
    if len(text) <= 7:
        assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0.00 USD"),
        (1, "0.000001 USD"),
        (9_999, "0.009999 USD"),
        (12_345, "0.0123 USD"),
        (500_000, "0.50 USD"),
        (1_234_560_000, "1234.56 USD"),
    ],
)
def test_money_in_words_shows_what_small_amounts_need(micros: int, text: str) -> None:
    assert money_text(micros, "USD") == text

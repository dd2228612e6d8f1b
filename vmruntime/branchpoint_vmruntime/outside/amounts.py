"""Amounts as people write them: tokens, money, forks, time; and back into words."""

import re

from branchpoint_vmruntime.errors import UsageError

MICROS = 1_000_000

_WHOLE = re.compile(r"[0-9](?:_?[0-9]){0,11}")
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")
_DURATION = re.compile(r"(?P<amount>[0-9]{1,6}(?:\.[0-9]{1,3})?)(?P<unit>[smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SMALL_MICROS = MICROS // 100


def parse_whole(text: str) -> int:
    """A whole number of at most twelve digits; UsageError in words.

    >>> parse_whole("200_000")
    200000
    """
    if not _WHOLE.fullmatch(text):
        raise UsageError(f"{text!r} is not a whole number such as 200000")
    return int(text)


def parse_money(text: str) -> float:
    """An amount of a currency, without its name; UsageError in words.

    >>> parse_money("5.00")
    5.0
    """
    if not _DECIMAL.fullmatch(text):
        raise UsageError(f"{text!r} is not an amount of money such as 5 or 0.25")
    return float(text)


def parse_duration(text: str) -> float:
    """Seconds, from a number with its unit; UsageError in words.

    >>> parse_duration("90s"), parse_duration("1.5h")
    (90.0, 5400.0)
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a time such as 90s, 15m, 2h or 1d")
    return float(match["amount"]) * _SECONDS[match["unit"]]


def money_text(micros: int, currency: str) -> str:
    """Millionths of a currency, in words; small amounts with more digits.

    >>> money_text(12_345, "USD"), money_text(21, "EUR"), money_text(5_000_000, "USD")
    ('0.0123 USD', '0.000021 EUR', '5.00 USD')
    """
    digits = 4 if micros >= _SMALL_MICROS else 6
    whole, _, part = f"{micros / MICROS:.{digits}f}".partition(".")
    return f"{whole}.{part.rstrip('0').ljust(2, '0')} {currency}"


def duration_text(seconds: float) -> str:
    """Seconds as they are written, in the largest unit that leaves no fraction.

    >>> duration_text(7200), duration_text(90), duration_text(5400)
    ('2h', '90s', '90m')
    """
    whole = round(seconds)
    for unit in ("d", "h", "m"):
        if whole and whole % _SECONDS[unit] == 0:
            return f"{whole // _SECONDS[unit]}{unit}"
    return f"{whole}s"

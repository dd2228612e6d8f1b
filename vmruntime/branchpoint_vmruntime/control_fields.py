"""The fields of what is asked at a control socket: each of its kind, or refused in words. Pure."""

import math
from collections.abc import Mapping
from typing import Any, cast

from branchpoint_vmruntime.errors import UsageError


def number(request: Mapping[str, Any], name: str, *, default: int | None = None) -> int:
    """A whole number, which must be there if there is no default."""
    value = request.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{name} has to be a number, not {value!r}")
    return value


def optional_number(request: Mapping[str, Any], name: str) -> int | None:
    """A whole number, or nothing."""
    return None if request.get(name) is None else number(request, name)


def text(request: Mapping[str, Any], name: str, *, default: str | None = None) -> str:
    """A text, which must be there if there is no default.

    >>> text({"label": "geladen"}, "label")
    'geladen'
    """
    value = request.get(name, default)
    if not isinstance(value, str):
        raise UsageError(f"{name} has to be a text, not {value!r}")
    return value


def optional_text(request: Mapping[str, Any], name: str) -> str | None:
    """A text, or nothing."""
    return None if request.get(name) is None else text(request, name)


def texts(request: Mapping[str, Any], name: str) -> list[str]:
    """A list of texts, none if it is not there."""
    value = request.get(name, [])
    if not isinstance(value, list):
        raise UsageError(f"{name} has to be a list of texts, not {value!r}")
    each = cast("list[object]", value)
    if bad := [it for it in each if not isinstance(it, str)]:
        raise UsageError(f"{name} has to be a list of texts; there is {bad[0]!r} in it")
    return cast("list[str]", value)


def flag(request: Mapping[str, Any], name: str, *, default: bool = False) -> bool:
    """True or false."""
    value = request.get(name, default)
    if not isinstance(value, bool):
        raise UsageError(f"{name} has to be true or false, not {value!r}")
    return value


def seconds(request: Mapping[str, Any], name: str, *, default: float, most: float) -> float:
    """A time in seconds, no longer than `most`.

    >>> seconds({"timeout_s": 600}, "timeout_s", default=1.0, most=60.0)
    60.0
    """
    value = request.get(name, default)
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise UsageError(f"{name} has to be a number of seconds, not {value!r}")
    return min(float(value), most)


def optional_seconds(request: Mapping[str, Any], name: str) -> float | None:
    """A time in seconds, or nothing."""
    if request.get(name) is None:
        return None
    return seconds(request, name, default=0.0, most=math.inf)

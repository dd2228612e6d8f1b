"""What a manifest says of the store: how much disk a session's checkpoints may take, how long."""

import re

import yaml

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.manifest.nodes import Nodes
from branchpoint_vmruntime.outside.amounts import parse_duration, parse_whole
from branchpoint_vmruntime.storage.retention import StoreBudgets

_BYTES = re.compile(r"(?P<amount>[0-9]{1,6}(?:\.[0-9]{1,6})?)(?P<unit>[mgt]b)", re.IGNORECASE)
_SHIFT = {"mb": 20, "gb": 30, "tb": 40}


def read_store(nodes: Nodes, node: yaml.Node) -> StoreBudgets:
    """`{bytes: 20gb, age: 30d, checkpoints: 200}`."""
    fields = nodes.fields(node, ("bytes", "age", "checkpoints"))
    return StoreBudgets(
        bytes=nodes.parsed(fields["bytes"], parse_bytes) if "bytes" in fields else None,
        age_s=nodes.parsed(fields["age"], parse_age) if "age" in fields else None,
        checkpoints=nodes.parsed(fields["checkpoints"], parse_count)
        if "checkpoints" in fields
        else None,
    )


def parse_bytes(text: str) -> int:
    """Bytes of disk, from a number with its unit, a power of 1024; UsageError in words.

    >>> parse_bytes("1.5gb") == 1536 << 20
    True
    """
    match = _BYTES.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a size such as 500mb, 20gb or 1tb")
    count = round(float(match["amount"]) * (1 << _SHIFT[match["unit"].lower()]))
    if not count:
        raise UsageError(f"{text!r} would keep nothing; a size is such as 500mb, 20gb or 1tb")
    return count


def parse_age(text: str) -> float:
    """Seconds that a checkpoint may be old; UsageError in words.

    >>> parse_age("30d")
    2592000.0
    """
    seconds = parse_duration(text)
    if not seconds:
        raise UsageError(f"{text!r} would keep nothing; an age is such as 12h or 30d")
    return seconds


def parse_count(text: str) -> int:
    """How many checkpoints there may be, one at least; UsageError in words."""
    count = parse_whole(text)
    if not count:
        raise UsageError(f"{text!r} would keep nothing; a number of checkpoints is such as 200")
    return count

"""What has changed from one view of a session to the next: a view is large, a change of it small.

Mirrored by nbext/src/lineage/patches.ts, which makes the next view of the one before. Pure.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

# By the name of each part of a view that is another: `{"value": ...}`, or of a list `{"pieces":
# [...]}`, each of them items of the list before, `[first, end]`, or a new one, `{"item": ...}`.
Patch = Mapping[str, Mapping[str, Any]]


def patch_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> Patch:
    """What makes `after` of `before`, both a LineageView as JSON; empty if they are the same.

    >>> patch_of({"version": 1, "left": [5]}, {"version": 2, "left": [5, 6]})
    {'version': {'value': 2}, 'left': {'pieces': [[0, 1], {'item': 6}]}}
    """
    return {
        name: _change(before.get(name), value)
        for name, value in after.items()
        if name not in before or before[name] != value
    }


def _change(was: object, now: object) -> Mapping[str, Any]:
    if isinstance(was, list | tuple) and isinstance(now, list | tuple):
        return {"pieces": _pieces(cast("Sequence[Any]", was), cast("Sequence[Any]", now))}
    return {"value": now}


def _pieces(was: Sequence[Any], now: Sequence[Any]) -> list[Any]:
    places = {json.dumps(item): place for place, item in enumerate(was)}
    pieces: list[Any] = []
    for item in now:
        place = places.get(json.dumps(item))
        if place is None:
            pieces.append({"item": item})
        elif pieces and isinstance(pieces[-1], list) and pieces[-1][1] == place:
            pieces[-1][1] = place + 1
        else:
            pieces.append([place, place + 1])
    return pieces

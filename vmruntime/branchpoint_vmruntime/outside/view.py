"""What a session's edge sees of the session."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass

from branchpoint_vmruntime.lineage import Checkpoint
from branchpoint_vmruntime.outside.forwarding import nobody_is_paused, nobody_sleeps
from branchpoint_vmruntime.streams import StreamChannel


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the edge sees of its session.

    `branch` is the one the session continues as; the others take a branch's name, and say nothing
    of one that is not there, but for `streams`, which raises. `own_bytes` is memory of live ones.
    `awake` gives a branch that is paused its machine again, and `paused` tells whether it is.
    `kin` are the sessions that continue its branches, or whose branch it continues.
    """

    session: str
    branch: Callable[[], str]
    head: Callable[[str], str]
    incarnation: Callable[[str], str]
    streams: Callable[[str], StreamChannel]
    checkpoints: Callable[[], list[Checkpoint]]
    own_bytes: Callable[[], Mapping[str, int]]
    awake: Callable[[str], Awaitable[None]] = nobody_sleeps
    paused: Callable[[str], bool] = nobody_is_paused
    kin: Callable[[], Collection[str]] = tuple[str, ...]

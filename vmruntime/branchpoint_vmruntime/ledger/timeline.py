"""What belongs to a machine's past: its own effects, and those of whom it woke from. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from branchpoint_vmruntime.ledger import Entry, EntryKind
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointId


def past(
    entries: Sequence[Entry],
    checkpoints: Iterable[Checkpoint],
    incarnation: str,
    upto: int | None = None,
) -> list[Entry]:
    """The effects a machine has in its past, oldest first; its own up to that number, or all.

    `entries` are those of its session, and `checkpoints` all that its machines woke from. Of a
    checkpoint that is not among them nothing is known, and the past begins there.
    """
    reach = dict(_reach(entries, checkpoints, incarnation, upto))
    return [
        entry
        for entry in entries
        if entry.is_effect and entry.number <= reach.get(entry.draft.incarnation, 0)
    ]


def not_undone(
    entries: Sequence[Entry],
    checkpoints: Iterable[Checkpoint],
    *,
    incarnation: str,
    target: Checkpoint,
) -> list[Entry]:
    """The effects in a machine's past that are not in that of `target`, oldest first.

    They have taken place, or may have, and going back to `target` does not undo them.
    """
    known = [*checkpoints, target]
    moment = target.moment
    kept = {entry.number for entry in past(entries, known, moment.incarnation, moment.position)}
    return [entry for entry in past(entries, known, incarnation) if entry.number not in kept]


def _reach(
    entries: Sequence[Entry],
    checkpoints: Iterable[Checkpoint],
    incarnation: str,
    upto: int | None,
) -> Iterator[tuple[str, int]]:
    """The machines of a past, newest first, and up to which number each belongs to it."""
    moments = {checkpoint.id: checkpoint.moment for checkpoint in checkpoints}
    woke_from = {
        entry.draft.incarnation: entry.draft.key
        for entry in entries
        if entry.draft.kind is EntryKind.WAKE
    }
    position = upto if upto is not None else max((entry.number for entry in entries), default=0)
    seen: set[str] = set()
    # A checkpoint from before there was a ledger tells of no machine.
    while incarnation and incarnation not in seen:
        seen.add(incarnation)
        yield incarnation, position
        moment = moments.get(CheckpointId(woke_from.get(incarnation, "")))
        if moment is None:
            return
        incarnation, position = moment.incarnation, moment.position

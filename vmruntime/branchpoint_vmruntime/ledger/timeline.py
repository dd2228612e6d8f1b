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
    upto: int | None = None,
) -> list[Entry]:
    """The effects in a machine's past that are not in that of `target`, oldest first.

    Of its own those up to that number, or all.
    They have taken place, or may have, and going back to `target` does not undo them.
    """
    known = [*checkpoints, target]
    moment = target.moment
    kept = {entry.number for entry in past(entries, known, moment.incarnation, moment.position)}
    return [entry for entry in past(entries, known, incarnation, upto) if entry.number not in kept]


def last_machine(
    entries: Sequence[Entry], session: str, branch: str, head: Checkpoint
) -> tuple[str, int | None]:
    """The incarnation that a branch without a machine had last, and up to which number it counts.

    That is the machine that made its last checkpoint, `head`, up to that moment; or all of one that
    ended later, which went on from there.
    """
    wakes = (
        entry.draft
        for entry in reversed(entries)
        if entry.draft.kind is EntryKind.WAKE
        and (entry.draft.session, entry.draft.branch) == (session, branch)
    )
    last = next(wakes, None)
    # Its name may have been another's, and its machine another session's.
    if last and (last.incarnation == head.moment.incarnation or last.key == head.id):
        return last.incarnation, None
    return head.moment.incarnation, head.moment.position


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

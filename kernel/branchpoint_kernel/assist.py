"""Completion and inspection on lines that are ours. Pure but for what the session is asked."""

import re
from dataclasses import dataclass
from typing import Any

from branchpoint_kernel.grammar import ALL
from branchpoint_kernel.manual import MAGICS, Magic, Takes
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.session import Session

_OUR_LINE = re.compile(rf"%{{1,2}}({'|'.join(MAGICS)})(?=\s|\?|$)")


@dataclass(frozen=True, slots=True)
class Spot:
    """A cursor on a line of ours: the magic and what is typed up to the cursor."""

    magic: Magic
    typed: str


def find_spot(code: str, cursor: int) -> Spot | None:
    """Where the cursor is, if on a line that one of our magics begins.

    >>> find_spot("%rollback lo", 12).typed
    ' lo'
    """
    start = code.rfind("\n", 0, cursor) + 1
    end = code.find("\n", cursor)
    line = code[start:] if end < 0 else code[start:end]
    match = _OUR_LINE.match(line)
    if match is None:
        return None
    return Spot(MAGICS[match[1]], line[match.end() : max(match.end(), cursor - start)])


def is_about_arguments(code: str, cursor: int) -> bool:
    """Whether completion there is ours: past a magic's name. The name itself the guest knows."""
    spot = find_spot(code, cursor)
    return spot is not None and spot.typed[:1].isspace()


def complete(session: Session, code: str, cursor: int) -> dict[str, Any]:
    """The content of a `complete_reply`."""
    spot = find_spot(code, cursor)
    word = "" if spot is None else re.split(r"[\s,]", spot.typed)[-1]
    offers = () if spot is None else _offers(session, spot, word)
    return {
        "status": "ok",
        "matches": [offer for offer in offers if offer.startswith(word)],
        "cursor_start": cursor - len(word),
        "cursor_end": cursor,
        "metadata": {},
    }


def inspect(code: str, cursor: int) -> dict[str, Any]:
    """The content of an `inspect_reply`."""
    spot = find_spot(code, cursor)
    data = {} if spot is None else {"text/plain": spot.magic.help}
    return {"status": "ok", "found": spot is not None, "data": data, "metadata": {}}


def _offers(session: Session, spot: Spot, word: str) -> tuple[str, ...]:
    before = spot.typed[: len(spot.typed) - len(word)].split()
    flag_takes = spot.magic.flags.get(before[-1]) if before else None
    if flag_takes is not None and flag_takes is not Takes.NOTHING:
        return _values(session, flag_takes, spot.magic)
    flags = tuple(flag for flag in spot.magic.flags if flag not in before)
    if word.startswith("-"):
        return (*flags, "--help")
    return (*_values(session, spot.magic.takes, spot.magic), *flags)


def _values(session: Session, takes: Takes, magic: Magic) -> tuple[str, ...]:
    match takes:
        case Takes.CHECKPOINT:
            return _labels(session)
        case Takes.BRANCH:
            names = _branch_names(session)
            return (*names, ALL) if magic.cell else names
        case Takes.BRANCH_OR_CHECKPOINT:
            return tuple(dict.fromkeys((*_branch_names(session), *_labels(session))))
        case Takes.ON_OR_OFF:
            return ("on", "off", "every")
        case Takes.NOTHING | Takes.TEXT | Takes.NUMBER | Takes.NEW_NAMES | Takes.FILE:
            return ()


def _labels(session: Session) -> tuple[str, ...]:
    newest_first = reversed(session.checkpoints())
    return tuple(dict.fromkeys(point.label for point in newest_first))


def _branch_names(session: Session) -> tuple[str, ...]:
    return tuple(
        str(branch.name) for branch in session.branches() if branch.state is not BranchState.DROPPED
    )

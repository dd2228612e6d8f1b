"""Completion and inspection on lines that are ours, from what the session and its folder hold."""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from branchpoint_kernel.grammar import ALL
from branchpoint_kernel.magic import Magic, Takes
from branchpoint_kernel.manual import MAGICS
from branchpoint_vmruntime.ledger import OutcomeState
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.outside.groups import groups
from branchpoint_vmruntime.outside.limits import NAMES as LIMITS
from branchpoint_vmruntime.session import Session

MOST_FILES = 500
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
    magic = spot.magic
    before = spot.typed[: len(spot.typed) - len(word)].split()
    flag_takes = magic.flags.get(before[-1]) if before else None
    if flag_takes is not None and flag_takes is not Takes.NOTHING:
        return _values(session, flag_takes, magic)
    flags = tuple(flag for flag in magic.flags if flag not in before)
    if word.startswith("-"):
        return (*flags, "--help")
    if magic.actions:
        takes = magic.actions.get(before[0]) if before else None
        plain = tuple(magic.actions) if takes is None else _values(session, takes, magic)
    else:
        plain = _values(session, magic.takes, magic)
    return (*plain, *flags)


def _values(session: Session, takes: Takes, magic: Magic) -> tuple[str, ...]:
    match takes:
        case Takes.CHECKPOINT:
            return _labels(session)
        case Takes.BRANCH:
            names = _branch_names(session)
            return (*names, ALL) if magic.cell else names
        case Takes.LIVE_BRANCH:
            return _branch_names(session, lambda state: state is BranchState.LIVE)
        case Takes.RESTING_BRANCH:
            return _branch_names(session, lambda state: state is not BranchState.LIVE)
        case Takes.BRANCH_OR_CHECKPOINT:
            return tuple(dict.fromkeys((*_branch_names(session), *_labels(session))))
        case Takes.BRANCH_OR_ALL:
            return (*_branch_names(session), ALL)
        case Takes.ON_OR_OFF:
            return ("on", "off", "every")
        case _:
            return _outside_values(session, takes)


def _outside_values(session: Session, takes: Takes) -> tuple[str, ...]:
    match takes:
        case Takes.TO_ALLOW:
            return tuple(groups())
        case Takes.TO_DENY:
            rules = session.outside.policies.rules(session.current.name)
            return tuple(dict.fromkeys(rule.group or rule.host for rule in rules))
        case Takes.SECRET:
            return tuple(secret.name for secret in session.outside.vault.names())
        case Takes.SOURCE:
            return ("env:", "file:", "prompt")
        case Takes.LIMIT:
            return tuple(f"{name}=" for name in LIMITS)
        case Takes.HOST_FILE:
            return _files_here()
        case Takes.KEY:
            entries = session.outside.ledger.entries(session.record.id)
            unknown = [e for e in entries if e.outcome and e.outcome.state is OutcomeState.UNKNOWN]
            return tuple(dict.fromkeys(e.draft.key for e in unknown if e.draft.key))
        case _:
            return ()


def _files_here() -> tuple[str, ...]:
    """What a line can name as it is, of the notebook's folder and the folders in it."""
    here = Path.cwd()
    found = (path for pattern in ("*", "*/*") for path in here.glob(pattern))
    names = (f"{path.relative_to(here)}{'/' * path.is_dir()}" for path in found)
    plain = (name for name in names if not name.startswith(".") and shlex.quote(name) == name)
    return tuple(sorted(islice(plain, MOST_FILES)))


def _labels(session: Session) -> tuple[str, ...]:
    newest_first = reversed(session.checkpoints())
    return tuple(dict.fromkeys(point.label for point in newest_first))


def _branch_names(
    session: Session, which: Callable[[BranchState], bool] = lambda state: True
) -> tuple[str, ...]:
    there = (it for it in session.branches() if it.state is not BranchState.DROPPED)
    return tuple(str(branch.name) for branch in there if which(branch.state))

"""Has sessions be found by other keys, as those of notebooks that are called otherwise now.

Only the key on record changes. Whoever has such a session open goes on with it, and looks the key
up whenever it tells it; what one session continues of another is known by their ids.
"""

import asyncio
import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from branchpoint_vmruntime.claiming import as_key
from branchpoint_vmruntime.control_socket import ControlClient
from branchpoint_vmruntime.errors import BranchpointError, NameTakenError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import SessionId, SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.removal import remove_if_nothing_saved

_ANSWERS_WITHIN_S = 5.0
# What `claim` calls a session that is opened beside the one of a notebook.
_BESIDE = re.compile(r" \([1-9][0-9]*\)$")


@dataclass(frozen=True, slots=True)
class Renamed:
    """The sessions by the keys they have now, and why others keep theirs.

    `shown_by` are the sessions that show one of the keys: they themselves, and those that have lent
    them a branch.
    """

    sessions: tuple[SessionRecord, ...] = ()
    refused: tuple[BranchpointError, ...] = ()
    shown_by: frozenset[SessionId] = frozenset()


def rename_session(home: Home, session: str, key: str) -> Renamed:
    """Have the session of that id be found by another key from now on, whether it is open or not.

    NameTakenError if another session has it that has saved something or is open.
    """
    with Journal.open(home.database) as journal:
        return _rekeyed(home, journal, [{SessionId(session): as_key(key)}], strict=True)


def follow_path(home: Home, old: str, new: str) -> Renamed:
    """Have the sessions of a notebook, or of all in a folder, be found where that is now.

    Both are absolute paths. Those beside a notebook's go along with it, or stay with it if another
    session that has saved something or is open has one of the new keys.
    """
    if not home.database.exists():
        return Renamed()
    before, after = as_key(old), as_key(new)
    with Journal.open(home.database) as journal:
        together: dict[str, dict[SessionId, str]] = {}
        for it in journal.sessions():
            notebook = _BESIDE.sub("", it.key)
            if before in (it.key, notebook) or it.key.startswith(f"{before}/"):
                keys = together.setdefault(notebook, {})
                keys[it.id] = after + it.key[len(before) :]
        return _rekeyed(home, journal, together.values())


async def tell(home: Home, renamed: Renamed) -> None:
    """Have whoever has one of them open show it by its new key at once.

    Who does not answer does so with the next that changes there.
    """
    await asyncio.gather(*(_tell(home, session) for session in renamed.shown_by))


async def _tell(home: Home, session: SessionId) -> None:
    with suppress(BranchpointError):
        async with ControlClient(home.control(session)) as owner:
            await owner.ask("renamed", timeout_s=_ANSWERS_WITHIN_S)


def _rekeyed(
    home: Home,
    journal: Journal,
    groups: Iterable[Mapping[SessionId, str]],
    *,
    strict: bool = False,
) -> Renamed:
    """Each group as one step; with `strict` what is refused is raised."""
    found: list[SessionRecord] = []
    refused: list[BranchpointError] = []
    for keys in groups:
        try:
            found += _rekeyed_together(home, journal, keys)
        except BranchpointError as error:
            # One notebook of a folder, or a disk without room for one, is not all the others.
            if strict:
                raise
            refused.append(error)
    loans = [journal.loan_of(it.id) for it in found]
    shown_by = {it.id for it in found} | {it.session for it in loans if it is not None}
    return Renamed(tuple(found), tuple(refused), frozenset(shown_by))


def _rekeyed_together(
    home: Home, journal: Journal, keys: Mapping[SessionId, str]
) -> list[SessionRecord]:
    for id, key in keys.items():  # noqa: A001
        other = journal.session_by_key(key)
        if other is not None and other.id != id:
            remove_if_nothing_saved(home, journal, other)
    try:
        return journal.rekey(keys)
    except NameTakenError as error:
        taken = next(key for key in keys.values() if journal.session_by_key(key) is not None)
        quoted = shlex.quote(taken)
        raise NameTakenError(
            str(error),
            hint=f"`branchpoint rm {quoted}` removes that one,"
            f" `branchpoint rename {quoted} KEY` has it be found by another key",
        ) from error

"""The names a shell can complete: sessions, branches, checkpoints, as the books have them."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from branchpoint_cli.sessions import named, on_record
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchState, SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal

Completer = Callable[..., Iterable[str]]
Found = TypeVar("Found")


def completed(action: argparse.Action, by: Completer) -> argparse.Action:
    """The same argument, completed by what `by` finds."""
    action.completer = by  # pyright: ignore[reportAttributeAccessIssue]
    return action


def sessions(**_: Any) -> list[str]:
    """Keys and ids of all sessions."""
    found = _quietly(lambda: on_record(Home.default()))
    return [name for session in found for name in (session.key, session.id)]


def branches(*, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """The branches of the session that is meant, but for those given up."""

    def find() -> list[str]:
        meant = _meant(parsed_args)
        with Journal.read(Home.default().database) as journal:
            there = [branch for session in meant for branch in journal.branches(session.id)]
        return [branch.name for branch in there if branch.state is not BranchState.DROPPED]

    return list(dict.fromkeys(_quietly(find)))


def checkpoints(*, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """The labels of the session that is meant, and the ids of what has none."""

    def find() -> list[str]:
        meant = _meant(parsed_args)
        with Journal.read(Home.default().database) as journal:
            there = [each for session in meant for each in journal.checkpoints(session.id)]
        return [each.label or each.id for each in there]

    return list(dict.fromkeys(_quietly(find)))


def _meant(options: argparse.Namespace) -> Sequence[SessionRecord]:
    home = Home.default()
    there = on_record(home)
    name = getattr(options, "session", None)
    if isinstance(name, str):
        return [named(name, there)]
    return [session for session in there if home.control(session.id).exists()]


def _quietly(find: Callable[[], Sequence[Found]]) -> Sequence[Found]:
    """What was found; nothing, where a command would say what is wrong."""
    try:
        return find()
    except (BranchpointError, OSError):
        return ()

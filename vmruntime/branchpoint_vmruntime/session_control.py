"""The asking end of a session's control socket: what its owner can be asked for, by whoever may.

The socket is there for as long as the session is open, `home.control(session)`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from branchpoint_vmruntime.awaiting_end import has_ended, process_descriptor
from branchpoint_vmruntime.control_facts import (
    BranchFacts,
    CheckpointFacts,
    EndFacts,
    Fact,
    ForkFacts,
    KeepFacts,
    Lent,
    OpenSession,
    PauseFacts,
    ResumeFacts,
    RollbackFacts,
    RunFacts,
    from_json,
)
from branchpoint_vmruntime.control_socket import ControlClient
from branchpoint_vmruntime.errors import BranchpointError, OwnerSilentError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import SessionId
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage_view import CellText, LineageView
from branchpoint_vmruntime.locks import owner_kind
from branchpoint_vmruntime.outside.forwarding import Forward
from branchpoint_vmruntime.view_ops import LONGEST_WATCH_S

_SIGN_OF_LIFE_S = 5.0
_GONE_S = 30.0


class SessionControl:
    """Asks the owner of a session; enter it to connect. UsageError if nobody has it open.

    What the owner refuses is raised here as it was there, in its words: UnknownNameError for a name
    that is not known, SessionBusyError where something else is under way. Operations take as long
    as they take; an owner that ends meanwhile is a BranchpointError. Whoever stops waiting calls
    nothing off. `came_back` and `notices` are what `Session` tells beside it.
    """

    def __init__(self, socket: Path) -> None:
        self._client = ControlClient(socket)
        self._stack = AsyncExitStack()
        self.came_back: list[tuple[str, str]] = []
        self.notices: list[str] = []

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._client)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def session(self) -> OpenSession:
        """Which session it is, and who has it open."""
        answer = await self._client.ask("session", timeout_s=_SIGN_OF_LIFE_S)
        return from_json(OpenSession, answer)

    async def branches(self) -> Sequence[BranchFacts]:
        """Every branch on record, dropped ones too, in order of making."""
        answer = await self._client.ask("branches")
        return [from_json(BranchFacts, fields) for fields in answer["branches"]]

    async def checkpoints(self) -> Sequence[CheckpointFacts]:
        """Every checkpoint of the session, the base first, oldest first."""
        answer = await self._client.ask("checkpoints")
        return [from_json(CheckpointFacts, fields) for fields in answer["checkpoints"]]

    async def checkpoint(
        self,
        label: str | None = None,
        *,
        note: str = "",
        branch: str | None = None,
        pinned: bool = False,
    ) -> CheckpointFacts:
        """Save a branch, the current one if none is named; it runs on."""
        return await self._done(
            CheckpointFacts, "checkpoint", label=label, note=note, branch=branch, pinned=pinned
        )

    async def fork(
        self,
        count: int = 1,
        *,
        start: str | None = None,
        names: Sequence[str] = (),
        branch: str | None = None,
        same_random: bool = False,
    ) -> ForkFacts:
        """Live branches from a checkpoint, by label or id, or from this very moment of a branch."""
        return await self._done(
            ForkFacts,
            "fork",
            count=count,
            start=start,
            names=list(names),
            branch=branch,
            same_random=same_random,
        )

    async def rollback(
        self, target: str | None = None, *, branch: str | None = None, safety: bool = True
    ) -> RollbackFacts:
        """A branch goes back to a checkpoint, by label or id; None: its last."""
        return await self._done(
            RollbackFacts, "rollback", target=target, branch=branch, safety=safety
        )

    async def switch(self, name: str) -> BranchFacts:
        """Continue as another branch; one without a machine is woken from its head."""
        return await self._done(BranchFacts, "switch", name=name)

    async def keep(self, name: str) -> KeepFacts:
        """Continue as a branch; save and end every other live one, so that it can be reopened."""
        return await self._done(KeepFacts, "keep", name=name)

    async def drop(self, names: Sequence[str]) -> Sequence[BranchFacts]:
        """Give branches up. Their checkpoints stay."""
        answer = await self._asked("drop", names=list(names))
        return [from_json(BranchFacts, fields) for fields in answer["dropped"]]

    async def pause(self, name: str | None = None) -> PauseFacts:
        """Save a branch, the current one if none is named, and end its machine until it is wanted.

        SessionBusyError while a cell or other code runs in it.
        """
        return await self._done(PauseFacts, "pause", name=name)

    async def resume(self, name: str | None = None) -> ResumeFacts:
        """Give a branch without a machine its machine again, from its last checkpoint."""
        return await self._done(ResumeFacts, "resume", name=name)

    async def lend(
        self, branch: str, key: str, *, again: bool = False, by: float | None = None
    ) -> Lent:
        """Save a branch and have it carry on in the session of that key, until that is closed.

        The session is there when this returns, and begins as the branch once it is opened. It is
        not lent if that has not begun `by` a time of the monotonic clock: SessionBusyError.
        """
        return await self._done(Lent, "lend", branch=branch, key=key, again=again, by=by)

    async def view(self) -> LineageView:
        """All that is shown of the session, as it is now."""
        return from_json(LineageView, await self._client.ask("view"))

    async def watch(self, seen: int, *, timeout_s: float = LONGEST_WATCH_S) -> int:
        """The version of the view once it is another than the one that was seen.

        The same after `timeout_s` seconds, of which LONGEST_WATCH_S are the most. Nothing else can
        be asked meanwhile: watch over a connection of its own.
        """
        for_s = min(timeout_s, LONGEST_WATCH_S)
        answer = await self._client.ask(
            "watch", timeout_s=for_s + _SIGN_OF_LIFE_S, seen=seen, for_s=for_s
        )
        return int(answer["version"])

    async def cells(self, of: str) -> Sequence[CellText]:
        """The cells of a branch, or up to a checkpoint by label or id, oldest first, as run."""
        answer = await self._client.ask("cells", of=of)
        return [from_json(CellText, fields) for fields in answer["cells"]]

    async def ask(self, op: str, **fields: Any) -> Mapping[str, Any]:
        """Ask for whatever this owner answers, such as the `preview` of a notebook's kernel."""
        return await self._client.ask(op, timeout_s=None, **fields)

    async def run(self, code: str, *, branch: str | None = None) -> RunFacts:
        """Run code in a branch's kernel and wait for it; one that is paused is resumed first.

        An error that the code raises is a result. MAX_LINE_BYTES of text are the most there can be.
        """
        return await self._done(RunFacts, "run", code=code, branch=branch)

    async def pin(self, checkpoint: str, *, pinned: bool = True) -> CheckpointFacts:
        """Keep a checkpoint, by label or id, whatever else goes, or no longer."""
        return await self._done(CheckpointFacts, "pin", checkpoint=checkpoint, pinned=pinned)

    async def annotate(
        self, checkpoint: str, *, label: str | None = None, note: str | None = None
    ) -> CheckpointFacts:
        """Give a checkpoint, by label or id, another label or note, or both; None leaves it."""
        return await self._done(
            CheckpointFacts, "annotate", checkpoint=checkpoint, label=label, note=note
        )

    async def remove(self, ids: Sequence[str]) -> Sequence[CheckpointFacts]:
        """Remove checkpoints, by label or id, with their files; those that went.

        One that others descend from, that a branch stands on or that is pinned stays.
        """
        answer = await self._asked("remove", checkpoints=list(ids))
        return [from_json(CheckpointFacts, fields) for fields in answer["removed"]]

    async def end(self, *, save: bool = True) -> EndFacts:
        """Have a process that owns nothing but this session end, and wait until it has.

        It saves its live branches first, as `pause` does, unless told not to. A kernel refuses, in
        words: its notebook is what ends it.
        """
        owner = await self.session()
        with process_descriptor(owner.pid) as process:
            answer = await self._done(EndFacts, "end", save=save)
            if not await has_ended(process, timeout_s=_GONE_S):
                raise BranchpointError(
                    "the session's owner was told to end and is still there",
                    hint="look at owner.log in the session's folder",
                )
        return answer

    async def forward(
        self, port: int, *, to: int | None = None, branch: str | None = None
    ) -> Forward:
        """As `Forwards.add`."""
        return Forward(**await self._client.ask("forward", port=port, to=to, branch=branch))

    async def unforward(self, port: int, *, branch: str | None = None) -> Forward:
        """As `Forwards.remove`."""
        return Forward(**await self._client.ask("unforward", port=port, branch=branch))

    async def forwards(self) -> Sequence[Forward]:
        """As `Forwards.list`."""
        answer = await self._client.ask("forwards")
        return [Forward(**fields) for fields in answer["forwards"]]

    async def _done(self, kind: type[Fact], op: str, **fields: Any) -> Fact:
        return from_json(kind, await self._asked(op, **fields))

    async def _asked(self, op: str, **fields: Any) -> Mapping[str, Any]:
        """Have something done, however long what is under way there takes; what came of it."""
        answer = await self._client.ask(op, timeout_s=None, **fields)
        self.came_back += [(str(branch), str(key)) for branch, key in answer.get("came_back", ())]
        self.notices += [str(words) for words in answer.get("notices", ())]
        return answer


async def is_answered(home: Home, session: str) -> bool:
    """Whether somebody has a session open, and answers."""
    try:
        async with SessionControl(home.control(session)):
            return True
    except BranchpointError:
        return False


async def open_sessions(home: Home) -> list[OpenSession]:
    """The sessions of a home that somebody has open, by their keys."""
    there = await asyncio.gather(
        *(session_if_open(home, it.stem) for it in home.run.glob("*.sock"))
    )
    return sorted((it for it in there if it is not None), key=lambda session: session.key)


async def session_if_open(home: Home, session: str) -> OpenSession | None:
    """The session of that id as its owner tells of it; None if nobody has it open.

    An owner that is held up, by its disk say, has it open: of that one it is told what is on
    record. BranchpointError if the record cannot be read.
    """
    try:
        async with ControlClient(home.control(session)) as owner:
            pid = owner.owner_pid
            with suppress(OwnerSilentError):
                answer = await owner.ask("session", timeout_s=_SIGN_OF_LIFE_S)
                return from_json(OpenSession, answer)
    except BranchpointError:
        # Left behind by an owner that was killed, or by one that is just leaving.
        return None
    return await asyncio.to_thread(_on_record, home, SessionId(session), pid)


def _on_record(home: Home, session: SessionId, pid: int) -> OpenSession | None:
    with Journal.read(home.database) as journal:
        record = journal.session(session)
    if record is None:
        return None
    return OpenSession(id=record.id, key=record.key, pid=pid, kind=owner_kind(pid))

"""What the owner of a session answers at its control socket, by the name of the operation.

What changes the session is done one after another, each in the turn of whoever drives it. What only
looks does not wait.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.budgeted_runs import run_within
from branchpoint_vmruntime.control_facts import (
    BranchFacts,
    CheckpointFacts,
    EndFacts,
    FailedFork,
    FailedPark,
    ForkFacts,
    KeepFacts,
    Lent,
    OpenSession,
    PauseFacts,
    ResumeFacts,
    RollbackFacts,
    RunFacts,
    to_json,
)
from branchpoint_vmruntime.control_fields import (
    flag,
    number,
    optional_number,
    optional_seconds,
    optional_text,
    text,
    texts,
)
from branchpoint_vmruntime.control_socket import Handler
from branchpoint_vmruntime.errors import (
    BranchpointError,
    MachineStartError,
    SessionBusyError,
    UsageError,
)
from branchpoint_vmruntime.lineage import BranchState, Checkpoint, SessionRecord
from branchpoint_vmruntime.outside.forwarding import Forwards
from branchpoint_vmruntime.ownership import BY_KERNEL, Ownership
from branchpoint_vmruntime.reports import ForkReport, PauseReport
from branchpoint_vmruntime.session import Session, nothing_runs
from branchpoint_vmruntime.turn_in_time import in_time
from branchpoint_vmruntime.view_ops import ViewOps
from branchpoint_vmruntime.viewing import branch_facts

Request = Mapping[str, Any]


def handlers_for(
    found: Callable[[], SessionRecord], forwards: Forwards, owner: Ownership = BY_KERNEL
) -> Mapping[str, Handler]:
    """Answered without asking a machine: who has the session open, and its forwards."""

    async def session(_request: Request) -> Mapping[str, Any]:
        record = found()
        return to_json(OpenSession(id=record.id, key=record.key, pid=os.getpid(), kind=owner.kind))

    async def forward(request: Request) -> Mapping[str, Any]:
        port, to = number(request, "port"), optional_number(request, "to")
        return asdict(await forwards.add(port, to=to, branch=optional_text(request, "branch")))

    async def unforward(request: Request) -> Mapping[str, Any]:
        port, branch = number(request, "port"), optional_text(request, "branch")
        return asdict(await forwards.remove(port, branch=branch))

    async def listed(_request: Request) -> Mapping[str, Any]:
        return {"forwards": [asdict(forward) for forward in forwards.list()]}

    return {"session": session, "forward": forward, "unforward": unforward, "forwards": listed}


class ControlOps:
    """The operations on one session, for whoever asks at its socket."""

    def __init__(self, session: Session, owner: Ownership) -> None:
        self._session = session
        self._owner = owner
        self._one_at_a_time = asyncio.Lock()
        self._runs: Counter[str] = Counter()
        if session.executes is nothing_runs:
            session.executes = self.runs

    def handlers(self) -> Mapping[str, Handler]:
        """By the name of the operation."""
        changing: Mapping[str, Handler] = {
            "checkpoint": self._checkpoint,
            "fork": self._fork,
            "rollback": self._rollback,
            "switch": self._switch,
            "keep": self._keep,
            "drop": self._drop,
            "pause": self._pause,
            "resume": self._resume,
            "lend": self._lend,
            "pin": self._pin,
            "annotate": self._annotate,
            "remove": self._remove,
            "end": self._end,
        }
        return {
            "branches": self._branches,
            "checkpoints": self._checkpoints,
            **ViewOps(self._session, self._owner.kind).handlers(),
            **{name: self._in_turn(name, handler) for name, handler in changing.items()},
            "run": self._run,
        }

    def runs(self, branch: str) -> bool:
        """Whether code that was asked for at the socket runs in a branch."""
        return self._runs[branch] > 0

    def _in_turn(self, op: str, handler: Handler) -> Handler:
        async def one_after_another(request: Request) -> Mapping[str, Any]:
            async with self._turn(optional_seconds(request, "by")):
                with self._session.changes.doing(op, self._about(request)):
                    answer = await handler(request)
            return {**answer, **self._beside(request)}

        return one_after_another

    def _beside(self, request: Request) -> Mapping[str, Any]:
        """What else is to be told, once; a page shows nothing of it, and leaves it to a cell."""
        if optional_text(request, "asked") is not None:
            return {}
        told = {"came_back": self._session.came_back, "notices": self._session.notices}
        taken = {name: list(each) for name, each in told.items() if each}
        for each in told.values():
            each.clear()
        return taken

    @asynccontextmanager
    async def _turn(self, by: float | None = None) -> AsyncGenerator[None]:
        async with in_time(by, lambda: self._one_at_a_time, lambda: self._session.turn()):
            if self._owner.ended():
                raise SessionBusyError(
                    "that session is just being closed", hint="open it again in a moment"
                )
            yield

    async def _branches(self, _request: Request) -> Mapping[str, Any]:
        return {"branches": await self._facts(self._session.branches())}

    async def _checkpoints(self, _request: Request) -> Mapping[str, Any]:
        return {"checkpoints": self._saved(self._session.checkpoints())}

    async def _checkpoint(self, request: Request) -> Mapping[str, Any]:
        name, pinned = optional_text(request, "branch"), flag(request, "pinned")
        label, note = optional_text(request, "label"), text(request, "note", default="")
        await self._session.awake(name)
        made = await self._session.checkpoint(label, note=note, branch=name)
        if pinned:
            await self._session.pin(made)
        return to_json(CheckpointFacts.of(made, pinned=pinned))

    async def _fork(self, request: Request) -> Mapping[str, Any]:
        branch, start = optional_text(request, "branch"), optional_text(request, "start")
        count, names = number(request, "count", default=1), texts(request, "names")
        same_random = flag(request, "same_random")
        if start is None:
            await self._session.awake(branch)
        report = await self._session.fork(
            count,
            start=None if start is None else self._session.find(start),
            names=names,
            branch=branch,
            same_random=same_random,
        )
        return to_json(await self._forked(report))

    async def _rollback(self, request: Request) -> Mapping[str, Any]:
        branch, target = optional_text(request, "branch"), optional_text(request, "target")
        safety = flag(request, "safety", default=True)
        goal = self._session.find(target, branch=branch)
        report = await self._session.rollback(goal, safety=safety, branch=branch)
        return to_json(
            RollbackFacts(
                branch=await self._fact(report.branch),
                checkpoint=self._of(report.checkpoint),
                safety=None if report.safety is None else self._of(report.safety),
                safety_note=report.safety_note,
                total_ms=report.total_ms,
                phases_ms=dict(report.phases_ms),
            )
        )

    async def _switch(self, request: Request) -> Mapping[str, Any]:
        return to_json(await self._fact(await self._session.switch(text(request, "name"))))

    async def _keep(self, request: Request) -> Mapping[str, Any]:
        report = await self._session.keep(text(request, "name"))
        return to_json(
            KeepFacts(
                branch=await self._fact(report.branch),
                parked=tuple([await self._fact(branch) for branch in report.parked]),
                failures=tuple(
                    FailedPark(name=it.name, message=str(it.error), hint=it.error.hint)
                    for it in report.failures
                ),
                total_ms=report.total_ms,
            )
        )

    async def _drop(self, request: Request) -> Mapping[str, Any]:
        dropped = await self._session.drop(texts(request, "names"))
        return {"dropped": await self._facts(dropped)}

    async def _pause(self, request: Request) -> Mapping[str, Any]:
        branch = self._named(optional_text(request, "name"))
        if self._is_busy(branch):
            raise SessionBusyError(
                f"code runs in branch {branch.name!r}", hint="wait for it, or interrupt it"
            )
        return to_json(await self._paused(await self._session.pause(branch.name)))

    async def _resume(self, request: Request) -> Mapping[str, Any]:
        report = await self._session.resume(optional_text(request, "name"))
        return to_json(
            ResumeFacts(
                branch=await self._fact(report.branch),
                checkpoint=self._of(report.checkpoint),
                away_s=report.away_s,
                total_ms=report.total_ms,
                phases_ms=dict(report.phases_ms),
                lost=report.lost,
            )
        )

    async def _lend(self, request: Request) -> Mapping[str, Any]:
        branch, key = text(request, "branch"), text(request, "key")
        borrower = await self._session.lend(branch, key, again=flag(request, "again"))
        return to_json(Lent(session=borrower.id, key=borrower.key))

    async def _run(self, request: Request) -> Mapping[str, Any]:
        code, name = text(request, "code"), optional_text(request, "branch")
        async with self._turn():
            self._session.outside.stopping.require(self._named(name).name)
            branch = await self._session.awake(name)
            self._note_runs(branch, 1)
        # Outside the turn: while code runs its branch may be saved, forked and looked at.
        try:
            result = await run_within(self._session.outside.stopping, branch, code)
        finally:
            self._note_runs(branch, -1)
        return to_json(
            RunFacts(
                branch=branch.name,
                status=result.status,
                text=result.text,
                elapsed_ms=result.elapsed_ms,
                error_name=result.error_name,
                error_value=result.error_value,
            )
        )

    def _note_runs(self, branch: Branch, more: int) -> None:
        self._runs[branch.name] += more
        self._session.changes.note()

    async def _annotate(self, request: Request) -> Mapping[str, Any]:
        label, note = optional_text(request, "label"), optional_text(request, "note")
        checkpoint = self._session.find(text(request, "checkpoint"))
        if label is None and note is None:
            raise UsageError("there is neither a label nor a note to give it", hint="give one")
        annotated = await self._session.annotate(checkpoint, label=label, note=note)
        return to_json(self._of(annotated))

    async def _pin(self, request: Request) -> Mapping[str, Any]:
        pinned = flag(request, "pinned", default=True)
        checkpoint = self._session.find(text(request, "checkpoint"))
        await self._session.pin(checkpoint, pinned=pinned)
        return to_json(CheckpointFacts.of(checkpoint, pinned=pinned))

    async def _remove(self, request: Request) -> Mapping[str, Any]:
        names = texts(request, "checkpoints")
        found = {c.id: c for c in (self._session.find(name) for name in names)}
        before = {c.id: self._of(c) for c in found.values()}
        gone = await self._session.remove(list(found.values()))
        return {"removed": [to_json(before[c.id]) for c in gone]}

    async def _end(self, request: Request) -> Mapping[str, Any]:
        save = flag(request, "save", default=True)
        if self._owner.end is None:
            raise UsageError(self._owner.why_not, hint=self._owner.instead)
        saved = await save_all(self._session) if save else []
        ended = EndFacts(
            saved=tuple([await self._paused(report) for report in saved]),
            lost=tuple(branch.name for branch in _live(self._session)),
        )
        self._owner.end()
        return to_json(ended)

    def _about(self, request: Request) -> str:
        """The branch that something is done to, for whoever looks on meanwhile."""
        named = [request.get("branch"), request.get("name"), *texts(request, "names")[:1]]
        return next((it for it in named if isinstance(it, str)), self._session.current.name)

    def _named(self, name: str | None) -> Branch:
        return self._session.current if name is None else self._session.branch(name)

    def _is_busy(self, branch: Branch) -> bool:
        return self._session.executes(branch.name) or self.runs(branch.name)

    def _of(self, checkpoint: Checkpoint) -> CheckpointFacts:
        return CheckpointFacts.of(checkpoint, pinned=checkpoint.id in self._session.pins())

    def _saved(self, checkpoints: Sequence[Checkpoint]) -> list[dict[str, Any]]:
        pins = self._session.pins()
        return [to_json(CheckpointFacts.of(it, pinned=it.id in pins)) for it in checkpoints]

    async def _forked(self, report: ForkReport) -> ForkFacts:
        if not report.branches:
            first = report.failures[0]
            raise MachineStartError(
                f"no fork came up; {first.name}: {first.error}", hint=first.error.hint
            ) from first.error
        return ForkFacts(
            origin=self._of(report.origin),
            branches=tuple([await self._fact(branch) for branch in report.branches]),
            failures=tuple(
                FailedFork(name=it.name, message=str(it.error), hint=it.error.hint)
                for it in report.failures
            ),
            reseeded=report.reseeded,
            total_ms=report.total_ms,
        )

    async def _paused(self, report: PauseReport) -> PauseFacts:
        return PauseFacts(
            branch=await self._fact(report.branch),
            checkpoint=self._of(report.checkpoint),
            freed_bytes=report.freed_bytes,
            total_ms=report.total_ms,
        )

    async def _facts(self, branches: Sequence[Branch]) -> list[dict[str, Any]]:
        labels = {str(it.id): it.label for it in self._session.checkpoints()}
        return [to_json(await self._fact(branch, labels)) for branch in branches]

    async def _fact(self, branch: Branch, labels: Mapping[str, str] | None = None) -> BranchFacts:
        if labels is None:
            labels = {str(it.id): it.label for it in self._session.checkpoints()}
        # Read from the kernel's tables, milliseconds for each GB.
        use = await asyncio.to_thread(branch.memory)
        busy = self._is_busy(branch)
        return branch_facts(self._session, branch, labels, use, busy=busy)


async def save_all(session: Session) -> list[PauseReport]:
    """Pause every live branch, whatever runs in it: it carries on with that when it is resumed.

    One that cannot be saved runs on, and is an error once the others are saved.
    """
    executes, session.executes = session.executes, nothing_runs
    saved: list[PauseReport] = []
    failures: dict[str, BranchpointError] = {}
    try:
        # Asked anew each time: a fork that was under way makes more of them.
        while live := [branch for branch in _live(session) if branch.name not in failures]:
            try:
                saved.append(await session.pause(live[0].name))
            except BranchpointError as error:
                failures[live[0].name] = error
    finally:
        session.executes = executes
    for failure in failures.values():
        raise failure
    return saved


def _live(session: Session) -> list[Branch]:
    return [branch for branch in session.branches() if branch.state is BranchState.LIVE]

"""Takes in what code inside the machines asks for, and answers it."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from branchpoint_kernel.commands import Explain, Get, Put, RunIn
from branchpoint_kernel.exploring import Exploring
from branchpoint_kernel.following import Following
from branchpoint_kernel.grammar import parse
from branchpoint_kernel.handover import Handover
from branchpoint_kernel.manual import MAGICS
from branchpoint_kernel.mistakes import told_of, unharmed
from branchpoint_kernel.operations import Done, Operations
from branchpoint_kernel.publisher import error_content
from branchpoint_kernel.pump import Pump
from branchpoint_vmruntime.branch_seam import CallChannel, GuestCall
from branchpoint_vmruntime.errors import BranchpointError, UnknownNameError, UsageError
from branchpoint_vmruntime.ledger.guest_calls import OnceCalls
from branchpoint_vmruntime.outside.facts import Who
from branchpoint_vmruntime.session import Session

log = logging.getLogger(__name__)

Answer = Mapping[str, Any]

# What may wait for another call of the same machine, or takes long and changes no branch.
_BESIDE_OTHERS = ("explore", "once")
_MAGICS_BESIDE_OTHERS = ("put", "get")
MOST_BESIDE_OTHERS = 512


class Calls:
    """The calls of every live branch: in order within a branch, but for those that may wait."""

    def __init__(
        self,
        session: Session,
        operations: Operations,
        handover: Handover,
        exploring: Exploring,
        following: Following,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._outside = session.outside
        self._once = OnceCalls(session.outside.once)
        self._operations = operations
        self._handover = handover
        self._exploring = exploring
        self._following = following
        self._tasks = tasks

    def follow(self, pump: Pump) -> None:
        """Answer the calls of a kernel's machine until it ends."""
        try:
            channel = pump.branch.calls
        except BranchpointError:
            return
        self._tasks.create_task(self._serve(pump, channel), name=f"calls of {pump.branch.name}")

    async def _serve(self, pump: Pump, channel: CallChannel) -> None:
        # What a caller has given up may go on here for a while.
        room = asyncio.Semaphore(MOST_BESIDE_OTHERS)
        while True:
            try:
                call = await channel.next()
            except BranchpointError:
                return
            except Exception:
                log.exception("no more calls from branch %s are heard", pump.branch.name)
                return
            if _goes_beside_others(call.request):
                await room.acquire()
                task = self._tasks.create_task(self._answer(pump, channel, call))
                task.add_done_callback(lambda _: room.release())
            else:
                await self._answer(pump, channel, call)

    async def _answer(self, pump: Pump, channel: CallChannel, call: GuestCall) -> None:
        try:
            answer = await self._carry_out(pump, call)
        except Exception as error:
            # One call that we mishandle must not take the session and its machines along.
            answer = refusal(told_of(error, f"a call from branch {pump.branch.name}"))
        if answer is None or pump.ended is not None:
            return
        try:
            await channel.answer(call, answer)
        except BranchpointError as error:
            log.info("a call from branch %s lost its answer: %s", pump.branch.name, error)
        except Exception as error:
            where = f"the answer to a call from branch {pump.branch.name}"
            await unharmed(channel.answer(call, refusal(told_of(error, where))), where)

    async def _carry_out(self, pump: Pump, call: GuestCall) -> Answer | None:
        """The answer; None if nobody is left to take it."""
        match call.request.get("do"):
            case "magic":
                return await self._magic(pump, call)
            case "explore":
                return await self._exploring.explore(pump, call)
            case "result":
                self._exploring.take_result(pump, str(call.request.get("payload", "")))
                return success()
            case "once":
                value = await self._once.answer(self._who(pump), call.request, call.gone)
                return None if value is None else success(value=value)
            case "secret":
                return success(value={"placeholder": self._placeholder(pump, call.request)})
            case other:
                raise UsageError(f"there is no call {other!r}")

    def _who(self, pump: Pump) -> Who:
        who = self._outside.who(pump.branch.name)
        return replace(who, incarnation=pump.channel.incarnation)

    def _placeholder(self, pump: Pump, request: Mapping[str, Any]) -> str:
        name, there = str(request.get("name", "")), self._outside.vault.issue(pump.branch.name)
        if name not in there:
            hint = f"`%secrets add {name} --host HOST` binds one, in a cell of the notebook"
            raise UnknownNameError("secret", name, tuple(there), hint=hint)
        return there[name]

    async def _magic(self, pump: Pump, call: GuestCall) -> Answer | None:
        request = call.request
        name = str(request.get("name", ""))
        if name not in MAGICS:
            raise UsageError(f"there is no magic {name!r}", hint=f"there is: {', '.join(MAGICS)}")
        command = parse(name, str(request.get("line", "")), str(request.get("body", "")))
        match command:
            case Explain():
                return success({"text/plain": MAGICS[command.magic].help})
            case RunIn():
                raise UsageError(
                    "%%branch does not run from inside a cell that is running",
                    hint="put it at the top of a cell of its own",
                )
            case Put() | Get():
                return await self._copy(pump, call, command)
            case _:
                pass
        current = self._following.current()
        held = self._handover.hold(pump)
        try:
            done = await self._operations.perform(
                command, branch=pump.branch.name, require=lambda: _require_there(pump)
            )
        except BaseException:
            self._handover.let_go(pump, held)
            raise
        if pump.ended is None:
            self._handover.let_go(pump, held)
        else:
            self._handover.pass_on(pump, held, done)
        self._following.begin(current)
        return self._shown(pump, done) if pump.ended is None else None

    async def _copy(self, pump: Pump, call: GuestCall, command: Put | Get) -> Answer | None:
        """Copy for as long as the caller waits; of what it gives up nothing remains."""
        copying = asyncio.create_task(self._operations.perform(command, branch=pump.branch.name))
        leaving = asyncio.create_task(call.gone.wait())
        try:
            await asyncio.wait((copying, leaving), return_when=asyncio.FIRST_COMPLETED)
            return success(copying.result().shown) if copying.done() else None
        finally:
            for task in (copying, leaving):
                task.cancel()
            await asyncio.wait((copying, leaving))

    def _shown(self, pump: Pump, done: Done) -> Answer:
        self._handover.show_forks(pump, done)
        return success(done.shown, done.value)


def _require_there(pump: Pump) -> None:
    if pump.ended is not None:
        raise pump.ended


def _goes_beside_others(request: Mapping[str, Any]) -> bool:
    do = request.get("do")
    return do in _BESIDE_OTHERS or (do == "magic" and request.get("name") in _MAGICS_BESIDE_OTHERS)


def success(
    data: Mapping[str, Any] | None = None, value: Mapping[str, Any] | None = None
) -> Answer:
    """The answer to a call that was carried out."""
    return {"status": "ok", "data": data and dict(data), "value": dict(value or {})}


def refusal(error: BranchpointError) -> Answer:
    """The answer to one that was not, in words."""
    content = error_content(error)
    ename, evalue = content["ename"], content["evalue"]
    return {"status": "error", "ename": ename, "evalue": evalue, "hint": error.hint}

"""Runs a cell that holds our magics: its code in the guest, its commands here, in order.

A cell of magics alone does not count: the reply bears the guest's last In[] number, because the
guest never heard of the cell and a number of our own would be given out twice. In a mixed cell the
last piece of code counts as the cell; those before it leave no trace in In, Out and the history.
"""

import json
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from branchpoint_kernel.bundles import Bundle
from branchpoint_kernel.cells import Code, Segment, split
from branchpoint_kernel.commands import (
    AddSecret,
    Copy,
    Explain,
    Operation,
    RunIn,
    ShowLineage,
    is_stoppable,
    needs_machine,
)
from branchpoint_kernel.conversations import Part
from branchpoint_kernel.copy_display import CopyDisplay
from branchpoint_kernel.fanout import Fanout
from branchpoint_kernel.following import Following
from branchpoint_kernel.handover import Handover
from branchpoint_kernel.history import cell_of
from branchpoint_kernel.kernel_facts import KernelFacts
from branchpoint_kernel.lineage_host import LineageHost
from branchpoint_kernel.manual import MAGICS
from branchpoint_kernel.messages import Request, with_content
from branchpoint_kernel.mistakes import told_of
from branchpoint_kernel.operations import Done, Operations, with_hint
from branchpoint_kernel.publisher import Publisher, error_content
from branchpoint_kernel.pumps import Pumps
from branchpoint_kernel.questions import Questions
from branchpoint_kernel.stoppable import Stoppable
from branchpoint_vmruntime.errors import (
    BranchpointError,
    TransferError,
    UnknownNameError,
    UsageError,
)
from branchpoint_vmruntime.lineage import Cell
from branchpoint_vmruntime.outside.facts import SecretSource


@dataclass(frozen=True, slots=True)
class _Cell:
    """An execute request whose cell is ours to run."""

    request: Request
    content: dict[str, Any]

    @property
    def code(self) -> str:
        return str(self.content["code"])

    @property
    def silent(self) -> bool:
        return bool(self.content.get("silent", False))

    @property
    def stops_on_error(self) -> bool:
        return bool(self.content.get("stop_on_error", True)) and not self.silent


class CellRunner:
    """Takes cells apart and answers them as one.

    `require_budget` raises BudgetError for a branch that may run no more code. `bring_up` sees to
    it that the current branch has its machine, and gives what is to be shown of that.
    """

    def __init__(
        self,
        publisher: Publisher,
        pumps: Pumps,
        operations: Operations,
        fanout: Fanout,
        handover: Handover,
        following: Following,
        facts: KernelFacts,
        on_cell_error: Callable[[], None],
        questions: Questions,
        require_budget: Callable[[str], None],
        bring_up: Callable[[], Awaitable[Sequence[Bundle]]],
        lineage: LineageHost,
    ) -> None:
        self._publisher = publisher
        self._pumps = pumps
        self._operations = operations
        self._fanout = fanout
        self._handover = handover
        self._running: _Cell | None = None
        self._following = following
        self._facts = facts
        self._on_cell_error = on_cell_error
        self._questions = questions
        self._require_budget = require_budget
        self._bring_up = bring_up
        self._lineage = lineage
        self._stoppable = Stoppable()
        self._preface: Sequence[Bundle] = ()

    @property
    def request(self) -> Request | None:
        """The cell that is being run, if one is."""
        return None if self._running is None else self._running.request

    @property
    def cell(self) -> Cell | None:
        """The same as the history knows it."""
        if self._running is None:
            return None
        metadata = json.loads(self._running.request.message.metadata)
        return cell_of(self._running.content, metadata, self._last_count())

    def interrupt(self) -> bool:
        """Whether the host itself was busy with the cell, and has been told to stop."""
        waited = self._fanout.stop()
        return self._stoppable.stop() or waited

    async def run(self, request: Request, preface: Sequence[Bundle] = ()) -> None:
        """The whole answer to one request: one busy, one input, one reply, one idle.

        `preface` is shown before the cell's own outputs.
        """
        self._preface = preface
        self._running = _Cell(request, request.message.read())
        try:
            await self._run_to_end(self._running)
        finally:
            self._running = None

    async def _run_to_end(self, cell: _Cell) -> None:
        request = cell.request
        with self._publisher.busy(request):
            try:
                reply = await self._run(cell)
            except Exception as error:
                told = told_of(error, "a cell")
                if isinstance(told, UnknownNameError):
                    told = with_hint(told)
                if not cell.silent:
                    self._publisher.complain(request, told)
                reply = error_content(told)
            if reply["status"] == "error" and cell.stops_on_error:
                self._on_cell_error()
            defaults: dict[str, Any] = {"user_expressions": {}, "payload": []}
            # JupyterLab takes 0 for no number yet, and shows such a cell as running for ever.
            count = max(1, self._last_count())
            self._publisher.reply(request, {**defaults, **reply, "execution_count": count})

    async def _run(self, cell: _Cell) -> dict[str, Any]:
        try:
            segments = split(cell.code, self._facts.language) or [Code(cell.code)]
        except BranchpointError:
            self._announce(cell, counts=False)
            raise
        codes = [at for at, segment in enumerate(segments) if isinstance(segment, Code)]
        last_code = codes[-1] if codes else -1
        self._announce(cell, counts=bool(codes))
        reply: dict[str, Any] = {"status": "ok"}
        payload: list[dict[str, Any]] = []
        for at, segment in enumerate(segments):
            answer = await self._run_segment(cell, segment, is_last_code=at == last_code)
            payload += answer.get("payload", [])
            if answer["status"] != "ok":
                return answer
            if at == last_code:
                reply = answer
        return {**reply, "payload": payload}

    async def _run_segment(
        self, cell: _Cell, segment: Segment, *, is_last_code: bool
    ) -> dict[str, Any]:
        match segment:
            case Code():
                return await self._run_code(cell, segment, is_last=is_last_code)
            case Explain():
                return self._explain(cell, segment)
            case RunIn():
                return await self._fanout.run(cell.request, segment)
            case _:
                return await self._run_operation(cell, segment)

    async def _run_operation(self, cell: _Cell, operation: Operation) -> dict[str, Any]:
        if isinstance(operation, Copy):
            await self._need_machine(cell)
            return await self._copy(cell, operation)
        if isinstance(operation, AddSecret) and operation.source is None:
            operation = await self._with_source(cell, operation)
        if needs_machine(operation):
            await self._need_machine(cell)
        before = self._following.current()
        done = await self._perform(operation)
        if isinstance(operation, ShowLineage) and not cell.silent:
            await self._lineage.show(cell.request)
        if not cell.silent:
            self._publisher.display(cell.request, done.shown)
            if done.picture is not None:
                picture = await done.picture()
                self._publisher.display(cell.request, picture.data, metadata=picture.metadata)
        reply = await self._handover.to_cell(cell.request, done)
        await self._following.keep_up(before, cell.request.message.header)
        return reply

    async def _perform(self, operation: Operation) -> Done:
        performing = self._operations.perform(operation)
        if not is_stoppable(operation):
            return await performing
        return await self._stoppable.run(
            performing, UsageError("interrupted: nothing was changed", hint="run the cell again")
        )

    async def _copy(self, cell: _Cell, command: Copy) -> dict[str, Any]:
        stopped = TransferError("interrupted: nothing remains of what was under way")
        if cell.silent:
            await self._stoppable.run(self._operations.copy(command), stopped)
            return {"status": "ok"}
        display = CopyDisplay(self._publisher, cell.request)
        with display.kept_up():
            copying = self._operations.copy(command, on_step=display.note)
            done = await self._stoppable.run(copying, stopped)
        display.show(done.shown)
        return {"status": "ok"}

    async def _with_source(self, cell: _Cell, command: AddSecret) -> AddSecret:
        """The same with where its value comes from: a variable of this process, or the person."""
        if not command.asks and command.name in os.environ:
            return replace(command, source=SecretSource(variable=command.name))
        asking = self._questions.ask_unseen(cell.request, f"{command.name}: ")
        stopped = UsageError(f"interrupted: there is no secret {command.name}")
        try:
            value = await self._stoppable.run(asking, stopped)
        except UsageError as error:
            error.hint = "say where the value is: --from env:VARIABLE or --from file:PATH"
            raise
        return replace(command, source=SecretSource(), value=value)

    async def _run_code(self, cell: _Cell, code: Code, *, is_last: bool) -> dict[str, Any]:
        content = {**cell.content, "code": code.text}
        if not is_last:
            content |= {"store_history": False, "user_expressions": {}}
        message = with_content(cell.request.message, content)
        part = Part(cell.request, self._publisher)
        await self._need_machine(cell)
        pump = self._pumps.current
        self._require_budget(pump.branch.name)
        await pump.wait_free()
        await pump.ask(message, part)
        return await part.reply

    async def _need_machine(self, cell: _Cell) -> None:
        self._show(cell, await self._bring_up())

    def _show(self, cell: _Cell, shown: Sequence[Bundle]) -> None:
        if not cell.silent:
            for bundle in shown:
                self._publisher.display(cell.request, bundle)

    def _explain(self, cell: _Cell, command: Explain) -> dict[str, Any]:
        data = {"text/plain": MAGICS[command.magic].help}
        if command.paged:
            return {"status": "ok", "payload": [{"source": "page", "data": data, "start": 0}]}
        if not cell.silent:
            self._publisher.display(cell.request, data)
        return {"status": "ok"}

    def _announce(self, cell: _Cell, *, counts: bool) -> None:
        if cell.silent:
            return
        count = self._last_count() + (counts and bool(cell.content.get("store_history", True)))
        content = {"code": cell.code, "execution_count": count}
        self._publisher.publish("execute_input", content, cell.request.message.header)
        self._show(cell, self._preface)

    def _last_count(self) -> int:
        return self._pumps.count

"""Keeps the one widget of `%lineage`: tells pages what has changed, does what they ask for.

It lives in this process, so neither a busy machine nor a rollback is felt by it.
"""

import asyncio
import importlib
import logging
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from branchpoint_kernel.bundles import plain
from branchpoint_kernel.comms import Comms
from branchpoint_kernel.lineage_still import picture, summary
from branchpoint_kernel.messages import EMPTY, Request
from branchpoint_kernel.mistakes import beside, told_of
from branchpoint_kernel.operations import with_hint
from branchpoint_kernel.own_comms import OwnComms
from branchpoint_kernel.publisher import Publisher
from branchpoint_kernel.pump import Pump
from branchpoint_kernel.rendering import note
from branchpoint_kernel.returning import Returning
from branchpoint_kernel.visits import ASKED
from branchpoint_kernel.widget_states import CONTROL, States, described
from branchpoint_vmruntime.control_facts import to_json
from branchpoint_vmruntime.errors import BranchpointError, UnknownNameError, UsageError
from branchpoint_vmruntime.figures import Pace, figures_of
from branchpoint_vmruntime.lineage_view import LineageView
from branchpoint_vmruntime.session import Session
from branchpoint_vmruntime.viewing import view_of

if TYPE_CHECKING:
    from branchpoint_kernel.lineage_widget import LineageWidget

log = logging.getLogger(__name__)

# As `Action` and `Question` in nbext/src/lineage/facts.ts have them.
ACTIONS = frozenset({"checkpoint", "fork", "rollback", "switch", "keep", "drop", "pause"}) | {
    "resume",
    "pin",
    "annotate",
}
QUESTIONS = frozenset({"preview", "diff", "cells"})
LOOK = "look"
# What a page asks for that has missed a patch.
WHOLE = "whole"
# A page asks at such a comm for the widget that a kernel before this one had.
RETURN = "branchpoint.lineage"
# A page in front says so every 30 s; a timer of one that is not in front may run once a minute.
LOOKED_AT_S = 75.0
AFTER_A_FAILURE_S = 1.0
# A loop of checkpoints changes more often than anybody can see.
BETWEEN_VIEWS_S = 0.15
# The picture of more takes seconds, for which nobody who has the widget is to wait.
DRAWN_AT_ONCE = 100
# A page closes those it asks for states at; one that goes away before it has done so does not.
MOST_CONTROLS = 256
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
NOT_BUILT = "the live view is not built in this checkout"
HOW_TO_BUILD = "run `make venv` there; until then there is the picture and the table"


class LineageHost:
    """Holds the widget once it has been asked for, and answers the messages to its comms."""

    def __init__(
        self,
        session: Session,
        publisher: Publisher,
        comms: Comms,
        kernel: Callable[[], Pump | None],
        tasks: asyncio.TaskGroup,
        is_busy: Callable[[], bool],
        returning: Returning | None,
    ) -> None:
        self._session = session
        self._publisher = publisher
        self._comms = comms
        self._kernel = kernel
        self._tasks = tasks
        self._is_busy = is_busy
        self._returning = returning
        # A page that is loaded asks whether there is one; most sessions never show theirs.
        self._is_expected = returning is not None and returning.lineage_was_shown
        self._own = OwnComms(publisher)
        self._controls: dict[str, None] = {}
        self._widget: LineageWidget | None = None
        self._making = asyncio.Lock()
        self._shown = 0
        self._pace = Pace()
        self._looked_at_until = 0.0
        self._looked_at = asyncio.Event()
        self._asked_under = EMPTY
        self._by_patches = False

    async def show(self, request: Request) -> None:
        """Show the widget in a cell where somebody sits before it, and below it the picture.

        A page that has the widget hides the picture and the tables; see docs/decisions/0021.
        """
        view = await view_of(self._session)
        # Who runs a notebook with nobody there says that nobody can answer. nbclient would store
        # the widget's state, and nbconvert show that, which needs a network, instead of pictures.
        is_watched = bool(request.message.read().get("allow_stdin", True))
        is_live = is_watched and await self._show_widget(request, view)
        if is_live and len(view.checkpoints) > DRAWN_AT_ONCE:
            display_id = uuid4().hex
            self._publisher.display(request, {"text/plain": summary(view)}, display_id)
            self._beside(self._show_picture(request, view, display_id))
        else:
            await self._show_picture(request, view)

    async def _show_widget(self, request: Request, view: LineageView) -> bool:
        header = request.message.header
        try:
            widget = await self._made(header, view)
        except BranchpointError as error:
            self._publisher.display(request, plain([note("⚠", str(error), error.hint)]))
            return False
        self._show_view(widget, view, header)
        self._note_look()
        where = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
        self._publisher.display(request, {"text/plain": summary(view), WIDGET_VIEW: where})
        return True

    async def _show_picture(
        self, request: Request, view: LineageView, display_id: str = ""
    ) -> None:
        still = await picture(self._session, view)
        if display_id:
            self._publisher.update_display(request, still.data, display_id, still.metadata)
        else:
            self._publisher.display(request, still.data, metadata=still.metadata)

    async def serve(self) -> None:
        """Tell pages of what changes for as long as one of them is looked at; for ever."""
        try:
            while True:
                await self._looked_at.wait()
                if asyncio.get_running_loop().time() > self._looked_at_until:
                    self._looked_at.clear()
                    continue
                await self._keep_up_if_it_can()
        finally:
            self._own.end()
            if self._widget is not None:
                self._widget.end()

    def takes(self, request: Request) -> bool:
        """Whether a request is for it: to comms of ours, or about all comms there are."""
        if not request.type.startswith("comm_"):
            return False
        is_there = self._widget is not None or self._is_expected
        if request.type == "comm_info_request":
            return is_there
        content = request.message.read()
        if request.type == "comm_open":
            target = content.get("target_name")
            return target == RETURN or (target == CONTROL and is_there)
        comm_id = str(content.get("comm_id"))
        return comm_id in self._own or comm_id in self._controls

    def take(self, request: Request) -> None:
        """Answer such a request; what takes time is done beside."""
        content = {} if request.type == "comm_info_request" else request.message.read()
        comm_id = str(content.get("comm_id"))
        match request.type:
            case "comm_info_request":
                self._beside(self._tell_comms(request))
            case "comm_open":
                self._note_control(comm_id)
                if content.get("target_name") == RETURN:
                    self._beside(self._bring_back(request))
                else:
                    self._hear(request)
            case "comm_msg" if comm_id in self._controls:
                self._beside(self._tell_states(request, comm_id))
            case "comm_msg" if _method(content) == "request_state":
                self._beside(self._tell_state(request))
            case _:
                self._controls.pop(comm_id, None)
                self._hear(request)

    async def _made(self, header: bytes, view: LineageView) -> "LineageWidget":
        async with self._making:
            if self._widget is None:
                module = await asyncio.to_thread(
                    importlib.import_module, "branchpoint_kernel.lineage_widget"
                )
                try:
                    front_end = await asyncio.to_thread(module.FRONT_END.read_text, "utf-8")
                except OSError as error:
                    raise BranchpointError(NOT_BUILT, hint=HOW_TO_BUILD) from error
                name = f"branchpoint-lineage-{self._session.record.id}"
                self._own.install()
                with self._own.under(header):
                    self._widget = module.LineageWidget(
                        name, front_end, to_json(view), self._on_asked
                    )
                self._shown = view.version
                if self._returning is not None:
                    self._returning.note_lineage_shown()
        return cast("LineageWidget", self._widget)

    async def _expected(self, header: bytes) -> "LineageWidget | None":
        """The widget as a page that is loaded finds it, though no cell of this kernel shows it."""
        if self._widget is None and self._is_expected:
            try:
                return await self._made(header, await view_of(self._session))
            except BranchpointError as error:
                log.warning("the lineage view did not come back: %s", error)
        return self._widget

    def _note_look(self) -> None:
        self._looked_at_until = asyncio.get_running_loop().time() + LOOKED_AT_S
        self._looked_at.set()

    async def _keep_up_if_it_can(self) -> None:
        try:
            await self._keep_up()
        except Exception:
            log.exception("the lineage was not shown as it is")
            await asyncio.sleep(AFTER_A_FAILURE_S)

    async def _keep_up(self) -> None:
        widget = self._widget
        if widget is None:
            return
        changes = self._session.changes
        if await changes.wait(self._shown, timeout_s=self._pace.wait_s) != self._shown:
            await self._show_now(widget, EMPTY)
            await asyncio.sleep(BETWEEN_VIEWS_S)
            return
        figures = await figures_of(self._session)
        if self._pace.is_news(figures):
            widget.show_figures(figures)

    async def _show_now(self, widget: "LineageWidget", header: bytes) -> None:
        self._show_view(widget, await view_of(self._session), header)

    def _show_view(self, widget: "LineageWidget", view: LineageView, header: bytes) -> None:
        if view.version < self._shown:
            # Put together before another that is shown already.
            return
        with self._own.under(header):
            widget.show(to_json(view), by_patches=self._by_patches)
        self._shown = view.version
        self._pace.hurry()

    def _note_control(self, comm_id: str) -> None:
        self._controls[comm_id] = None
        if len(self._controls) > MOST_CONTROLS:
            del self._controls[next(iter(self._controls))]

    @contextmanager
    def _answering(self, request: Request) -> Generator[None]:
        """Busy before, idle last, unless the kernel is busy with something else."""
        try:
            with self._publisher.busy(request):
                yield
        finally:
            if self._is_busy():
                # A page would take the whole kernel for idle.
                self._publisher.status("busy")

    def _hear(self, request: Request) -> None:
        self._asked_under = request.message.header
        try:
            with self._answering(request), self._own.under(request.message.header):
                self._own.take(request.message)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            log.warning("dropped a message to the lineage view: %s", error)

    async def _tell_comms(self, request: Request) -> None:
        target = request.message.read().get("target_name")
        with self._answering(request):
            theirs, _ = await asyncio.gather(
                self._comms.listing_of(self._kernel(), target),
                self._expected(request.message.header),
            )
            comms = {**theirs, **self._own.listing(target)}
            self._publisher.reply(request, {"status": "ok", "comms": comms})

    async def _tell_states(self, request: Request, comm_id: str) -> None:
        header = request.message.header
        with self._answering(request):
            states, widget = await asyncio.gather(
                self._comms.states_of(self._kernel()), self._expected(header)
            )
            if widget is not None:
                await self._show_now(widget, EMPTY)
                ours = {it: described(state) for it, state in widget.states().items()}
                states = states.beside(States(ours))
            content = {"comm_id": comm_id, "data": states.content()}
            self._publisher.publish("comm_msg", content, header, buffers=states.buffers)
        self._note_look()

    async def _bring_back(self, request: Request) -> None:
        header = request.message.header
        with self._answering(request):
            view = await view_of(self._session)
            was_there = self._widget is not None
            try:
                widget = await self._made(header, view)
            except BranchpointError as error:
                log.warning("the lineage view did not come back: %s", error)
                return
            if was_there:
                # Another page has asked already, which this one may not have heard.
                self._show_view(widget, view, header)
                with self._own.under(header):
                    widget.open_again()
        self._note_look()

    async def _tell_state(self, request: Request) -> None:
        widget = self._widget
        if widget is None:
            return
        with self._answering(request):
            # A page takes the first it is told under its question for the whole state.
            await self._show_now(widget, EMPTY)
            with self._own.under(request.message.header):
                self._own.take(request.message)
        self._note_look()

    def _on_asked(self, content: object) -> None:
        """Implements what the widget calls with a message of a page."""
        asked = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
        op = asked.get("op")
        if op == LOOK:
            # Pages have what the widget itself brings them, so what one can do all can.
            self._by_patches = self._by_patches or asked.get("patches") is True
            self._note_look()
        elif op == WHOLE and self._widget is not None:
            self._widget.show_whole()
        else:
            self._beside(self._do(asked.get("id"), op, asked, self._asked_under))

    async def _do(self, number: Any, op: Any, asked: Mapping[str, Any], header: bytes) -> None:
        answer = await self._answer(op, {it: asked[it] for it in asked if it not in ("id", "op")})
        if self._widget is not None:
            with self._own.under(header):
                self._widget.answer({"id": number, **answer})

    async def _answer(self, op: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
        ASKED.set("in the lineage view")
        try:
            return {"done": await self._ask(op, fields)}
        except Exception as error:
            told = told_of(error, f"{op} in the lineage view")
            told = with_hint(told) if isinstance(told, UnknownNameError) else told
            return {"refused": {"message": str(told), "hint": told.hint}}

    async def _ask(self, op: Any, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        if not isinstance(op, str) or op not in ACTIONS | QUESTIONS:
            allowed = ", ".join(sorted(ACTIONS | QUESTIONS))
            raise UsageError(f"{op!r} cannot be asked for here", hint=f"these can: {allowed}")
        if op not in self._session.answers:
            raise UsageError(f"{op} cannot be asked of this session")
        return await self._session.answers[op]({**fields, "asked": "widget"})

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        beside(self._tasks, work, "a message to the lineage view", name="lineage view")


def _method(content: Mapping[str, Any]) -> object:
    data = content.get("data")
    return cast("dict[str, Any]", data).get("method") if isinstance(data, dict) else None

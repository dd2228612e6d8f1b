"""What the forks of a running cell print, labelled, in one display of the cell that forked."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from branchpoint_kernel.columns import Column
from branchpoint_kernel.fanout import Collecting
from branchpoint_kernel.mistakes import log_mistake
from branchpoint_kernel.publisher import Publisher
from branchpoint_kernel.redrawing import Redrawing


class ForkDisplay:
    """One display under a cell's header, followed until every side has come to its end.

    `foreground` is the header of the cell that runs now: some clients hear of nothing else.
    """

    def __init__(
        self, publisher: Publisher, header: bytes, foreground: Callable[[], bytes | None]
    ) -> None:
        self.header = header
        self.done = asyncio.Event()
        self.in_background = False
        self.followed = False
        self._publisher = publisher
        self._foreground = foreground
        self._display_id = uuid4().hex
        self._sides: list[Column] = []
        self._collecting: list[Collecting] = []
        self._changed = asyncio.Event()
        self._redrawing = Redrawing()

    def add(self, side: Column, collecting: Collecting) -> None:
        """One side more, such as a fork of a fork."""
        self._sides.append(side)
        self._collecting.append(collecting)
        collecting.executes = not self.in_background
        self.done.clear()
        collecting.done.add_done_callback(lambda _: self.note_change())
        self.note_change()

    def note_change(self) -> None:
        """A side has something new."""
        self._changed.set()

    def leave_to_background(self) -> None:
        """The cell has ended: interrupts are for others from now on."""
        self.in_background = True
        for collecting in self._collecting:
            collecting.executes = False

    def show(self) -> None:
        """Display what there is for the first time."""
        self._publish("display_data", self.header)

    async def keep_up(self) -> None:
        """Update the display until every side has come to its end."""
        self.followed = True
        try:
            while not await self._follow():
                await self._redrawing.rest()
        finally:
            self.followed = False
            self.done.set()

    async def _follow(self) -> bool:
        """Show the next change; whether it is the last."""
        await self._changed.wait()
        self._changed.clear()
        finished = all(collecting.done.done() for collecting in self._collecting)
        self._publish("update_display_data", self._foreground() or self.header)
        return finished

    def _publish(self, kind: str, parent: bytes) -> None:
        try:
            self._draw(kind, parent)
        except Exception as error:
            # One that cannot be shown is no reason to show nothing of what comes next.
            log_mistake(error, "a display of forks")

    def _draw(self, kind: str, parent: bytes) -> None:
        data = self._redrawing.draw(self._sides)
        transient = {"display_id": self._display_id}
        content: dict[str, Any] = {"data": data, "metadata": {}, "transient": transient}
        self._publisher.publish(kind, content, parent)

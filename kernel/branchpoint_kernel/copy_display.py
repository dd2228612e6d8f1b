"""Shows in a cell how far a copy of files has come; what it shows last stays."""

import asyncio
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from html import escape
from typing import Any
from uuid import uuid4

from branchpoint_kernel.copying import Step
from branchpoint_kernel.messages import Request
from branchpoint_kernel.publisher import Publisher
from branchpoint_kernel.rendering import Line, as_html, as_text, note, size

# A quick copy shows its end alone; a slow one how far it is, this often.
SHOW_EVERY_S = 0.4


class CopyDisplay:
    """One display under one cell."""

    def __init__(self, publisher: Publisher, request: Request) -> None:
        self._publisher = publisher
        self._request = request
        self._display_id = uuid4().hex
        self._shown = False
        self._step: Step | None = None
        self._began_s = time.monotonic()

    def note(self, step: Step) -> None:
        """It has come this far. May be told from another thread."""
        if self._step is None or step.number != self._step.number:
            self._began_s = time.monotonic()
        self._step = step

    @contextmanager
    def kept_up(self) -> Generator[None]:
        """Show it meanwhile; if the copy fails, that it stands still."""
        task = asyncio.create_task(self._keep_up())
        try:
            yield
        except BaseException:
            if self._shown and self._step is not None:
                stopped = note("✕", self._step.name, f"stopped after {_so_far(self._step)}")
                self.show({"text/plain": as_text([stopped]), "text/html": as_html([stopped])})
            raise
        finally:
            task.cancel()

    def show(self, data: Mapping[str, Any]) -> None:
        """Show this now, in place of what is there."""
        if self._shown:
            self._publisher.update_display(self._request, data, self._display_id)
        else:
            self._publisher.display(self._request, data, self._display_id)
        self._shown = True

    async def _keep_up(self) -> None:
        shown: Step | None = None
        while True:
            await asyncio.sleep(SHOW_EVERY_S)
            if self._step is not None and self._step != shown:
                shown = self._step
                self.show(progress_bundle(shown, time.monotonic() - self._began_s))


def progress_bundle(step: Step, took_s: float) -> dict[str, str]:
    """How far a copy has come, as it is displayed."""
    rate = f"{size(int(step.done_bytes / took_s))}/s" if took_s > 0 else ""
    which = f"file {step.number} of {step.files}" if step.files > 1 else ""
    lines = [Line(step.arrow, step.name, (_so_far(step), rate, which))]
    html = as_html(lines)
    if step.of_bytes:
        share = min(1.0, step.done_bytes / step.of_bytes)
        label = escape(step.name, quote=True)
        html += f'<progress aria-label="{label}" value="{share:.3f}" max="1"></progress>'
    return {"text/plain": as_text(lines), "text/html": html}


def _so_far(step: Step) -> str:
    done = size(step.done_bytes)
    return done if step.of_bytes is None else f"{done} of {size(step.of_bytes)}"

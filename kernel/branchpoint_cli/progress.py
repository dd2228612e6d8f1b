"""Shows the steps of a set-up: a bar while one goes on, a line when it is over."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class ShownProgress:
    """Implements the runtime's `Progress` on a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._title = ""
        self._began_s = time.monotonic()
        self._task = self._bars.add_task("", total=None, visible=False)

    def __enter__(self) -> Self:
        # Elsewhere than at a terminal bars are but empty lines.
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._bars.stop()

    def step(self, title: str) -> None:
        """A step begins."""
        self._title, self._began_s = title, time.monotonic()
        self._bars.reset(self._task, description=title, total=None, visible=True)

    def advance(self, fraction: float) -> None:
        """The present step is this far, 0 to 1."""
        self._bars.update(self._task, total=1.0, completed=fraction)

    def done(self, summary: str) -> None:
        """The present step is over."""
        self._bars.update(self._task, visible=False)
        took_s = time.monotonic() - self._began_s
        self._console.print(f"[green]✓[/] {self._title}: {summary} [dim]({took_s:.1f} s)[/]")

"""How long work tells what it is doing."""

from typing import Protocol


class Progress(Protocol):
    """Hears of steps; a step ends with `done` or with the exception that ends the work."""

    def step(self, title: str) -> None:
        """A step begins."""
        ...

    def advance(self, fraction: float) -> None:
        """The present step is this far, 0 to 1."""
        ...

    def done(self, summary: str) -> None:
        """The present step is over; one line of what it came to."""
        ...


class SilentProgress:
    """Hears everything and says nothing."""

    def step(self, title: str) -> None:
        """Nothing is shown."""

    def advance(self, fraction: float) -> None:
        """Nothing is shown."""

    def done(self, summary: str) -> None:
        """Nothing is shown."""

"""So many bytes that a session's connections may hold between them. Pure."""

from types import TracebackType
from typing import Self


class Room:
    """What is left of `most_bytes`."""

    def __init__(self, most_bytes: int) -> None:
        self.left_bytes = most_bytes

    def share(self) -> "Share":
        """One connection's part, empty as yet."""
        return Share(self)


class Share:
    """What one holds of a room. Leaving it gives all back, but for one that was handed on."""

    def __init__(self, room: Room) -> None:
        self.was_refused = False
        self._room = room
        self._bytes = 0
        self._was_handed_on = False

    def take(self, count: int) -> bool:
        """Whether there was room for so much more, which is then held."""
        if count > self._room.left_bytes:
            self.was_refused = True
            return False
        self._room.left_bytes -= count
        self._bytes += count
        return True

    def hand_on(self) -> None:
        """Let the next who leaves it keep it: somebody else has entered, or will."""
        self._was_handed_on = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._was_handed_on:
            self._was_handed_on = False
            return
        self._room.left_bytes += self._bytes
        self._bytes = 0

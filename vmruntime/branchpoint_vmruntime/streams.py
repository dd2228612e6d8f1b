"""Byte streams between host and guest over a machine's link, as those who use them see them."""

from collections.abc import Sequence
from typing import Protocol


class Stream(Protocol):
    """One two-way stream of bytes. MachineEndedError, or StreamResetError, once it is cut off."""

    @property
    def purpose(self) -> Sequence[str]:
        """What it was opened for: a word, and what belongs to it."""
        ...

    async def read(self, limit: int = 65536) -> bytes:
        """Some bytes as they come; none once the other end has said that it is done."""
        ...

    async def write(self, data: bytes) -> None:
        """Send; waits while the other end has no room."""
        ...

    async def finish(self) -> None:
        """Say that no more will be sent; reading goes on."""
        ...

    async def close(self) -> None:
        """End it at once, both ways. What the other end has not read yet is lost to it.

        After `finish`, and once the other end is done as well, nothing is lost. Closing twice is
        fine.
        """
        ...


class StreamChannel(Protocol):
    """The streams of one machine's incarnation. All are cut off when it ends or wakes anew."""

    async def accept(self) -> Stream:
        """The next stream that the guest opens. MachineEndedError once no more can come."""
        ...

    async def open(self, *purpose: str, timeout_s: float = 30.0) -> Stream:
        """Open one to the guest, such as `open("connect", "8000")`.

        GuestRefusedError in the guest's words, GuestSilentError, MachineEndedError.
        """
        ...

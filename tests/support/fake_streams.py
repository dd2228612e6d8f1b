"""A machine's streams in memory, both ends of them, for what uses them without a machine."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from branchpoint_vmruntime.errors import (
    GuestRefusedError,
    GuestSilentError,
    MachineEndedError,
    MachineError,
    StreamResetError,
)

WINDOW_BYTES = 256 << 10


class _Pipe:
    """One direction: holds no more than a window, as the real ones do."""

    def __init__(self, window_bytes: int) -> None:
        self._window_bytes = window_bytes
        self._data = bytearray()
        self._changed = asyncio.Event()
        self._cut: MachineError | None = None
        self.finished = False

    async def put(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            await self._until(lambda: len(self._data) < self._window_bytes)
            if self.finished:
                raise StreamResetError("nothing can be sent on a stream that is finished")
            room = self._window_bytes - len(self._data)
            self._data += rest[:room]
            rest = rest[room:]
            self._changed.set()

    async def take(self, limit: int) -> bytes:
        await self._until(lambda: bool(self._data) or self.finished)
        taken = bytes(self._data[:limit])
        del self._data[:limit]
        self._changed.set()
        return taken

    def finish(self) -> None:
        self.finished = True
        self._changed.set()

    def cut(self, error: MachineError) -> None:
        self._cut = self._cut or error
        self._data.clear()
        self._changed.set()

    @property
    def is_cut(self) -> bool:
        return self._cut is not None

    async def _until(self, condition: Callable[[], bool]) -> None:
        while self._cut is None and not condition():
            self._changed.clear()
            await self._changed.wait()
        if self._cut is not None:
            raise self._cut


class FakeEnd:
    """One end of a stream, the host's or the guest's. Implements `streams.Stream`."""

    def __init__(self, purpose: Sequence[str], incoming: _Pipe, outgoing: _Pipe) -> None:
        self._purpose = tuple(purpose)
        self._incoming = incoming
        self._outgoing = outgoing
        self._closed = False
        # Of one that the host opened: whether the guest took it.
        self.answer: asyncio.Future[None] | None = None

    @property
    def purpose(self) -> Sequence[str]:
        return self._purpose

    @property
    def is_cut(self) -> bool:
        """Whether it was cut off, by either end or with its machine."""
        return self._incoming.is_cut

    def accept(self) -> None:
        """The guest takes what the host opened; its first read or write says so as well."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(None)

    def refuse(self, words: str) -> None:
        """The guest does not take what the host opened."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(GuestRefusedError(words))
        self.cut(StreamResetError(words))

    async def read(self, limit: int = 65536) -> bytes:
        self._check_open()
        return await self._incoming.take(limit)

    async def write(self, data: bytes) -> None:
        self._check_open()
        await self._outgoing.put(data)

    async def finish(self) -> None:
        self._check_open()
        self._outgoing.finish()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if not (self._incoming.finished and self._outgoing.finished):
            self.cut(StreamResetError("the other end cut the stream off"))

    def cut(self, error: MachineError) -> None:
        """Cut it off both ways, as when its machine ends or wakes anew."""
        self._incoming.cut(error)
        self._outgoing.cut(error)

    async def read_all(self) -> bytes:
        """All that comes until the other end is done."""
        chunks: list[bytes] = []
        while chunk := await self.read():
            chunks.append(chunk)
        return b"".join(chunks)

    def _check_open(self) -> None:
        self.accept()
        if self._closed:
            raise StreamResetError("the stream is closed")


class FakeChannel:
    """The streams of a machine that is not there. Implements `streams.StreamChannel`.

    `guest_opens` is what a program in the guest does; `on_open` is run, as a task, with the guest's
    end of each stream that the host opens. Without it the guest refuses whatever the host opens.
    """

    def __init__(
        self,
        on_open: Callable[[FakeEnd], Awaitable[None]] | None = None,
        *,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self.on_open = on_open
        self._window_bytes = window_bytes
        self._opened: asyncio.Queue[FakeEnd | None] = asyncio.Queue()
        self._guest_ends: list[FakeEnd] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._end: MachineError | None = None

    def guest_opens(self, *purpose: str) -> FakeEnd:
        """A stream that the guest opens; the guest's end of it. The host accepts the other."""
        ours, theirs = self._pair(purpose)
        self._opened.put_nowait(ours)
        return theirs

    async def accept(self) -> FakeEnd:
        if self._end is not None:
            raise self._end
        stream = await self._opened.get()
        if stream is None:
            self._opened.put_nowait(None)
            raise self._end or MachineEndedError("the machine has ended")
        return stream

    async def open(self, *purpose: str, timeout_s: float = 30.0) -> FakeEnd:
        if self._end is not None:
            raise self._end
        if self.on_open is None:
            raise GuestRefusedError(f"nothing in this guest serves {' '.join(purpose)!r}")
        ours, theirs = self._pair(purpose)
        theirs.answer = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._serve(self.on_open, theirs))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            async with asyncio.timeout(timeout_s):
                await theirs.answer
        except TimeoutError as error:
            raise GuestSilentError(" ".join(purpose), timeout_s, Path("console.log")) from error
        return ours

    def cut_off(self) -> None:
        """Cut off every stream, as waking anew does; new ones may be opened."""
        for end in self._guest_ends:
            end.cut(StreamResetError("the machine woke anew"))
        self._guest_ends.clear()

    async def end(self) -> None:
        """The machine is gone: every stream is cut off and no more can come."""
        self._end = MachineEndedError("the machine has ended")
        for end in self._guest_ends:
            end.cut(self._end)
            if end.answer is not None and not end.answer.done():
                end.answer.set_exception(self._end)
        self._opened.put_nowait(None)
        serving = list(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    def _pair(self, purpose: Sequence[str]) -> tuple[FakeEnd, FakeEnd]:
        up, down = _Pipe(self._window_bytes), _Pipe(self._window_bytes)
        ours, theirs = FakeEnd(purpose, up, down), FakeEnd(purpose, down, up)
        self._guest_ends.append(theirs)
        return ours, theirs

    @staticmethod
    async def _serve(serve: Callable[[FakeEnd], Awaitable[None]], end: FakeEnd) -> None:
        try:
            await serve(end)
        except GuestRefusedError as error:
            end.refuse(str(error))
        except MachineError:
            pass
        finally:
            end.accept()
            await end.close()

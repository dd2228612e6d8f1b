"""One end of an HTTP/1.1 conversation: h11 over a wire."""

import asyncio
from collections.abc import Callable

import h11

from branchpoint_vmruntime.errors import OutsideError, StreamResetError
from branchpoint_vmruntime.outside.injection import Headers
from branchpoint_vmruntime.outside.passage import SAFE_METHODS, Counted, Passage
from branchpoint_vmruntime.outside.wire import CHUNK_BYTES, Unread, Wire

MOST_HEAD_BYTES = 64 << 10
# How long a reply that nobody may read is waited for, once the program sends no more.
DONE_SENDING_S = 5.0
# Small chunks come thousands to a read: others get their turn in between.
_EVENTS_IN_A_ROW = 128
CONTINUE = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
Role = type[h11.CLIENT] | type[h11.SERVER]
_CLOSE = (b"Connection", b"close")


class _Side:
    """What both ends have in common."""

    def __init__(self, wire: Wire, role: Role) -> None:
        self.wire = wire
        self._http = h11.Connection(role, max_incomplete_event_size=MOST_HEAD_BYTES)
        self._sending = asyncio.Lock()
        self._ended = False
        self._has_heard = False
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether the body has come whole."""
        return self._is_over

    async def send(self, event: h11.Event) -> None:
        """Send one event."""
        async with self._sending:
            if data := self._http.send(event):
                await self.wire.write(data)

    async def event(self) -> object:
        """The next event; h11.RemoteProtocolError if what comes is no HTTP."""
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                await self.more()
                continue
            self._is_over = False
            return event

    async def more(self) -> None:
        """Take in what comes next."""
        if self._ended:
            return
        data = await self.wire.read()
        self._ended = not data
        self._has_heard = self._has_heard or bool(data)
        self._http.receive_data(data)

    async def piece(self) -> bytes:
        """Some of the body as it comes; none at its end. h11.RemoteProtocolError."""
        while not self._is_over:
            if gathered := await self._gather():
                return gathered
            if not self._is_over:
                await self.more()
        return b""

    async def _gather(self) -> bytes:
        """What has come of the body."""
        found: list[bytes] = []
        size = 0
        while size < CHUNK_BYTES:
            event = self._http.next_event()
            if not isinstance(event, h11.Data):
                self._is_over = event is not h11.NEED_DATA
                break
            found.append(bytes(event.data))
            size += len(event.data)
            if len(found) % _EVENTS_IN_A_ROW == 0:
                await asyncio.sleep(0)
        return b"".join(found)

    def rest(self) -> Unread:
        """The wire, once another protocol goes on in it."""
        return Unread(self.wire, self._http.trailing_data[0])


class ClientSide(_Side):
    """Towards a program in a machine."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire, h11.SERVER)
        self._method = b""
        self.answered = False

    async def request(self) -> h11.Request | None:
        """The next request; None once there are no more. h11.RemoteProtocolError."""
        self.answered = False
        event = await self.event()
        if not isinstance(event, h11.Request):
            return None
        self._method = event.method
        return event

    async def body(self) -> bytes:
        """Some of the request's body; none at its end. StreamResetError if it is broken off."""
        if self._http.they_are_waiting_for_100_continue:
            await self.send(CONTINUE)
        try:
            return await self.piece()
        except h11.RemoteProtocolError as error:
            raise StreamResetError(f"the program broke its request off: {error}") from error

    async def whole_body(self, limit: int, take: Callable[[int], bool]) -> bytes | None:
        """The body; None if it is longer than `limit`, or `take` has no room for so much more.

        StreamResetError.
        """
        pieces: list[bytes] = []
        left = limit
        while piece := await self.body():
            left -= len(piece)
            if left < 0 or not take(len(piece)):
                return None
            pieces.append(piece)
        return b"".join(pieces)

    async def gone(self) -> None:
        """Wait until the program's connection is cut off, and raise that. Ends in no other way."""
        # What it sends meanwhile is a further request, which is taken in no further than this.
        if not self._ended and not self._http.trailing_data[0]:
            await self.more()
            if self._ended and self._method.decode() in SAFE_METHODS:
                # One that was killed, or has given up, looks like one that only has no more to say.
                await asyncio.sleep(DONE_SENDING_S)
                if not self.answered:
                    raise StreamResetError("the program did not wait for the reply")
        await asyncio.Event().wait()

    async def reply(self, status: int, reason: bytes, headers: Headers) -> None:
        """Begin the reply."""
        if self._http.their_state is h11.SEND_BODY:
            # The rest of the request is not waited for, so that no other can follow it.
            headers = (*headers, _CLOSE)
        self.answered = True
        await self.send(h11.Response(status_code=status, reason=reason, headers=list(headers)))

    async def answer(
        self, status: int, reason: bytes, headers: Headers, body: bytes, *, kind: bytes = b""
    ) -> None:
        """Give a whole reply. `kind` is its type, if the headers do not tell."""
        if kind:
            headers = (*headers, (b"Content-Type", kind))
        bare = status in (204, 304)
        if not bare and self._method != b"HEAD":
            headers = (*headers, (b"Content-Length", str(len(body)).encode()))
        self._take_what_is_here()
        await self.reply(status, reason, headers)
        if body and not bare and self._method != b"HEAD":
            await self.send(h11.Data(data=body))
        await self.send(h11.EndOfMessage())

    def next_cycle(self) -> bool:
        """Make ready for another request; False if the connection is to end."""
        self._take_what_is_here()
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def _take_what_is_here(self) -> None:
        """Pass over what has come of a body that nobody has read."""
        try:
            while self._http.their_state is h11.SEND_BODY:
                if self._http.next_event() is h11.NEED_DATA:
                    return
        except h11.RemoteProtocolError:
            return


class ServerSide(_Side):
    """Towards a server. OutsideError, in words, where it does not keep to HTTP."""

    def __init__(self, wire: Wire, name: str, passage: Passage, moved: Callable[[], None]) -> None:
        super().__init__(Counted(wire, passage, moved), h11.CLIENT)
        self._name = name

    async def response(self) -> h11.Response | h11.InformationalResponse:
        """The next head of a reply."""
        try:
            event = await self.event()
        except h11.RemoteProtocolError as error:
            raise self._broken(error) from error
        if isinstance(event, h11.Response | h11.InformationalResponse):
            return event
        raise OutsideError(f"{self._name} sent what is no reply")

    async def body(self) -> bytes:
        """Some of the reply's body; none at its end."""
        try:
            return await self.piece()
        except h11.RemoteProtocolError as error:
            raise self._broken(error) from error

    def _broken(self, error: h11.RemoteProtocolError) -> OutsideError:
        if self._ended:
            middle = "in the middle of its reply" if self._has_heard else "without a reply"
            return OutsideError(f"{self._name} ended the connection {middle}")
        # Behind a colon it quotes what was sent, and that may have a secret in it.
        what = str(error).partition(":")[0]
        return OutsideError(f"{self._name} sent what is no HTTP: {what}")

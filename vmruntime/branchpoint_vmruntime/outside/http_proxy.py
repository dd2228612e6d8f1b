"""HTTP as programs in a machine speak it: to the proxy, or to a server through it."""

import contextlib

import h11

from branchpoint_vmruntime.errors import (
    OutsideError,
    StorageError,
    StreamResetError,
    UsageError,
)
from branchpoint_vmruntime.ledger import EntryKind
from branchpoint_vmruntime.outside.account import Account
from branchpoint_vmruntime.outside.answers import Answer, answer_to
from branchpoint_vmruntime.outside.exchange import Exchange, say
from branchpoint_vmruntime.outside.head import Origin, read_head
from branchpoint_vmruntime.outside.http_side import ClientSide
from branchpoint_vmruntime.outside.names import split_port
from branchpoint_vmruntime.outside.seams import Tools
from branchpoint_vmruntime.outside.tunnel import Tunnels
from branchpoint_vmruntime.outside.wire import Unread, Wire, part, within

_CONNECTED = b"Connection established"


class HttpProxy:
    """Serves one machine's HTTP connections."""

    def __init__(self, tools: Tools, account: Account) -> None:
        self._tools = tools
        self._account = account
        self._tunnels = Tunnels(tools, account, self.serve)

    @property
    def tunnels(self) -> Tunnels:
        """What carries the connections that are not HTTP to the proxy."""
        return self._tunnels

    async def serve(self, wire: Wire, origin: Origin | None = None) -> None:
        """Serve one connection to its end. MachineError if it is cut off."""
        client = ClientSide(wire)
        while True:
            try:
                request = await within(self._tools.patience.idle_s, client.request())
            except h11.RemoteProtocolError as error:
                await self._refuse(client, "", Answer(error.error_status_hint, str(error)))
                break
            if request is None:
                break
            if request.method == b"CONNECT" and origin is None:
                await self._connect(client, request)
                break
            await self._exchange(client, request, origin)
            if not client.next_cycle():
                break
        await part(wire)

    async def _exchange(
        self, client: ClientSide, request: h11.Request, origin: Origin | None
    ) -> None:
        try:
            head = read_head(request, origin)
        except UsageError as error:
            await self._refuse(client, _text(request), answer_to(error))
            return
        await Exchange(self._tools, self._account, client, head).run()

    async def _refuse(self, client: ClientSide, url: str, answer: Answer) -> None:
        """For what is no request that could be let out."""
        self._account.refused(EntryKind.REQUEST, "", url, answer.words)
        with contextlib.suppress(h11.LocalProtocolError):
            await say(client, answer)

    async def _connect(self, client: ClientSide, request: h11.Request) -> None:
        async def greet() -> Unread:
            client.answered = True
            await client.send(h11.Response(status_code=200, headers=[], reason=_CONNECTED))
            return client.rest()

        try:
            host, port = split_port(request.target.decode("ascii"))
        except UsageError as error:
            await self._refuse(client, _text(request), answer_to(error))
            return
        try:
            await self._tunnels.run(host, port, "CONNECT", greet)
        except (OutsideError, StorageError) as error:
            if client.answered:
                raise StreamResetError(str(error)) from error
            await say(client, answer_to(error))


def _text(request: h11.Request) -> str:
    # A user and a password in what could not be made out are not written down.
    return request.target.decode("latin-1").rpartition("@")[2]

"""A gateway between programs in a machine that is not there and servers on loopback that are."""

import asyncio
import re
import ssl
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from pathlib import Path

import h11
from tests.support.fake_streams import FakeChannel, FakeEnd

from branchpoint_vmruntime.database import Database
from branchpoint_vmruntime.errors import MachineError
from branchpoint_vmruntime.ledger import Draft, Entry, Outcome
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.ledger.replay import ReplayDesk
from branchpoint_vmruntime.outside.authority import Authority
from branchpoint_vmruntime.outside.costs import Costs
from branchpoint_vmruntime.outside.facts import Limits, Price, Rule, Who
from branchpoint_vmruntime.outside.gateway import Gateway
from branchpoint_vmruntime.outside.limits import Spending
from branchpoint_vmruntime.outside.policy import Policies
from branchpoint_vmruntime.outside.seams import Patience
from branchpoint_vmruntime.outside.upstream import Address, Upstream
from branchpoint_vmruntime.outside.usage import Metering
from branchpoint_vmruntime.outside.vault import Vault

HOST = "api.example.org"
SESSION, BRANCH = "s-1", "main"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class TellingLedger(Ledger):
    """One that tells when something has ended."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.ended = asyncio.Event()

    def end(self, number: int, outcome: Outcome, *, result: bytes | None = None) -> None:
        super().end(number, outcome, result=result)
        self.ended.set()

    def note(self, draft: Draft, outcome: Outcome | None = None) -> int:
        number = super().note(draft, outcome)
        self.ended.set()
        return number


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a program got."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(kw_only=True)
class Edge:
    """A gateway that serves one made-up machine, and all that it works with."""

    gateway: Gateway
    channel: FakeChannel
    ledger: TellingLedger
    policies: Policies
    vault: Vault
    authority: Authority
    serving: "asyncio.Task[None]"
    ends: list[FakeEnd] = field(default_factory=list[FakeEnd])

    def program(self) -> FakeEnd:
        """A connection of a program's to the proxy."""
        end = self.channel.guest_opens("egress")
        self.ends.append(end)
        return end

    def entries(self) -> list[Entry]:
        """What is in the ledger."""
        return self.ledger.entries(SESSION)

    def entry(self) -> Entry:
        """The only one that is."""
        (entry,) = self.entries()
        return entry

    async def ended_entry(self) -> Entry:
        """The only one, once its outcome is known."""
        async with asyncio.timeout(120):
            while not self.entries() or self.entry().outcome is None:
                self.ledger.ended.clear()
                await self.ledger.ended.wait()
        return self.entry()

    async def get(self, url: str, *headers: str, method: str = "GET", body: bytes = b"") -> Reply:
        """What a program gets that asks once."""
        end = self.program()
        await end.write(request(method, url, *headers, body=body))
        return await read_reply(end, method)


@cache
def session_authority() -> Authority:
    """That of every session here, as making one takes a while."""
    with tempfile.TemporaryDirectory() as folder:
        return Authority.of(Path(folder))


@asynccontextmanager
async def edge(
    *rules: Rule,
    addresses: Mapping[str, Sequence[str]] | None = None,
    server_authority: Authority | None = None,
    patience: Patience | None = None,
    prices: Mapping[str, Price] | None = None,
    limits: Limits | None = None,
    connect_timeout_s: float = 15.0,
) -> AsyncGenerator[Edge]:
    """A gateway whose names lead to loopback, or where `addresses` tells."""

    async def resolve(host: str, port: int) -> Sequence[Address]:
        known = (addresses or {}).get(host, ["127.0.0.1"])
        if not known:
            raise OSError("no such name")
        return [ip_address(text) for text in known]

    channel = FakeChannel()
    with (
        tempfile.TemporaryDirectory() as folder,
        TellingLedger.open(Path(folder) / "ledger.db") as ledger,
    ):
        policies, vault = Policies(rules), Vault()
        authority = session_authority()
        trusted = server_authority or authority
        trust = ssl.create_default_context(cadata=trusted.certificate_pem)
        costs = Costs(ledger)
        gateway = Gateway(
            policies=policies,
            ledger=ledger,
            replay=ReplayDesk(ledger),
            vault=vault,
            metering=Metering(prices or {}),
            authority=authority,
            upstream=Upstream(
                trust=trust, resolve=resolve, proxies={}, connect_timeout_s=connect_timeout_s
            ),
            limits=Spending(limits or Limits(), costs, session=SESSION),
            patience=patience,
        )
        who = Who(session=SESSION, branch=BRANCH, incarnation="i-1", checkpoint=lambda: "c-1")
        serving = asyncio.create_task(gateway.serve(channel, who))
        it = Edge(
            gateway=gateway,
            channel=channel,
            ledger=ledger,
            policies=policies,
            vault=vault,
            authority=authority,
            serving=serving,
        )
        try:
            yield it
        finally:
            await channel.end()
            async with asyncio.timeout(120):
                await serving
                await gateway.close()


@asynccontextmanager
async def served(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncGenerator[int]:
    """A server on loopback; its port."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handler(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class Web:
    """A web server that gives the same reply to all, and remembers what it was asked."""

    status: int = 200
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b"hello"
    heads: list[h11.Request] = field(default_factory=list[h11.Request])
    bodies: list[bytes] = field(default_factory=list[bytes])

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = h11.Connection(h11.SERVER)
        body = b""
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Request):
                self.heads.append(event)
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                self.bodies.append(body)
                break
            else:
                return
        head = h11.Response(
            status_code=self.status,
            headers=[*self.headers, ("Content-Length", str(len(self.body)))],
        )
        for out in (head, h11.Data(data=self.body), h11.EndOfMessage()):
            writer.write(http.send(out) or b"")
        await writer.drain()

    def header(self, name: str) -> str | None:
        """What the last request bore in a header."""
        found = [value for key, value in self.heads[-1].headers if key == name.encode()]
        return found[0].decode() if found else None


def raw(answer: bytes, *, early: bool = False) -> Handler:
    """A server that says the same whatever it is told, and ends the connection.

    An `early` one has read no more than the head by then.
    """

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        # What nobody has read would have the connection reset instead of ended.
        body = re.search(rb"(?i)^content-length: *([0-9]+)", head, re.MULTILINE)
        if body and not early:
            await reader.readexactly(int(body[1]))
        writer.write(answer)
        await writer.drain()

    return handler


def open_to(
    port: int, *, host: str = HOST, methods: Sequence[str] = (), inspect: bool = False
) -> Rule:
    """A rule for a server on loopback."""
    return Rule(host=host, ports=(port,), methods=tuple(methods), private=True, inspect=inspect)


def request(method: str, url: str, *headers: str, body: bytes = b"") -> bytes:
    """A request as a program sends it to a proxy, or to a server if `url` is but a path."""
    lines = [f"{method} {url} HTTP/1.1", *headers]
    if not any(line.lower().startswith("host:") for line in headers):
        authority = url.partition("://")[2].partition("/")[0] if "://" in url else HOST
        lines.insert(1, f"Host: {authority}")
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


async def read_reply(end: FakeEnd, method: str = "GET", data: bytes = b"") -> Reply:
    """The reply that comes next; nothing may follow it. MachineError if it is cut off."""
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
    http.send(h11.EndOfMessage())
    head: h11.Response | None = None
    body = b""
    if data:
        http.receive_data(data)
    async with asyncio.timeout(120):
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await end.read())
            elif isinstance(event, h11.Response):
                head = event
                if method == "CONNECT" and event.status_code == 200:
                    break
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                break
    if head is None:
        raise MachineError("no reply")
    headers = {name.decode(): value.decode() for name, value in head.headers}
    return Reply(status=head.status_code, reason=head.reason.decode(), headers=headers, body=body)


async def tunnel(it: Edge, port: int, host: str = HOST) -> tuple[FakeEnd, Reply]:
    """A connection through the proxy, if it gives one."""
    end = it.program()
    await end.write(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    return end, await read_reply(end, "CONNECT")


class TlsClient:
    """A program's side of TLS in a stream, that trusts one authority alone."""

    def __init__(self, end: FakeEnd, authority: Authority, host: str = HOST) -> None:
        self._end = end
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cadata=authority.certificate_pem)
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=host)

    async def hello(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._step()
            else:
                await self._flush()
                return

    async def write(self, data: bytes) -> None:
        self._tls.write(data)
        await self._flush()

    async def read(self) -> bytes:
        while True:
            try:
                return self._tls.read(65536)
            except ssl.SSLWantReadError:
                await self._step()
            except ssl.SSLZeroReturnError:
                return b""

    @property
    def issuer(self) -> object:
        """Who vouches for the server."""
        certificate = self._tls.getpeercert()
        assert certificate is not None
        return certificate["issuer"]

    async def _step(self) -> None:
        await self._flush()
        if data := await self._end.read():
            self._in.write(data)
        else:
            self._in.write_eof()

    async def _flush(self) -> None:
        if data := self._out.read():
            await self._end.write(data)

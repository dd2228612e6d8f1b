"""Connections through the way out: by CONNECT and by SOCKS, unread and opened."""

import asyncio
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from socksio.socks5 import (
    SOCKS5AuthMethod,
    SOCKS5AuthMethodsRequest,
    SOCKS5AuthReply,
    SOCKS5Command,
    SOCKS5CommandRequest,
    SOCKS5Reply,
    SOCKS5ReplyCode,
)
from tests.support.fake_streams import FakeEnd
from tests.support.front_end import in_a_loop
from tests.support.ports import free_port
from tests.unit.outside.egress import (
    HOST,
    Edge,
    TlsClient,
    Web,
    edge,
    open_to,
    read_reply,
    request,
    served,
    tunnel,
)

from branchpoint_vmruntime.errors import MachineError
from branchpoint_vmruntime.ledger import Decision, EntryKind, OutcomeState
from branchpoint_vmruntime.outside.authority import Authority
from branchpoint_vmruntime.outside.facts import Rule, SecretSource, SecretSpec
from branchpoint_vmruntime.outside.piping import cut
from branchpoint_vmruntime.outside.seams import Patience

VALUE = "s3cret-value-of-the-host"


async def upper(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server of a protocol that nobody knows."""
    while data := await reader.read(100):
        writer.write(data.upper())
    writer.write(b"bye")
    await writer.drain()


@contextmanager
def an_authority() -> Generator[Authority]:
    """That of the servers."""
    with tempfile.TemporaryDirectory() as folder:
        yield Authority.of(Path(folder))


async def socks(it: Edge, host: str, port: int) -> tuple[FakeEnd, SOCKS5ReplyCode]:
    """A connection by SOCKS, and what the proxy says to it."""
    end = it.program()
    await end.write(SOCKS5AuthMethodsRequest([SOCKS5AuthMethod.NO_AUTH_REQUIRED]).dumps())
    chosen = SOCKS5AuthReply.loads(await end.read())
    assert chosen.method is SOCKS5AuthMethod.NO_AUTH_REQUIRED
    wanted = SOCKS5CommandRequest.from_address(SOCKS5Command.CONNECT, (host, port))
    await end.write(wanted.dumps())
    return end, SOCKS5Reply.loads(await end.read()).reply_code


async def opened(it: Edge, port: int) -> TlsClient:
    """TLS with a host through the proxy, as a program in the machine sees it."""
    end, reply = await tunnel(it, port)
    assert reply.status == 200
    client = TlsClient(end, it.authority)
    await client.hello()
    return client


@in_a_loop
async def test_a_tunnel_passes_bytes_on_unread() -> None:
    async with served(upper) as port, edge(open_to(port)) as it:
        end, reply = await tunnel(it, port)
        assert (reply.status, reply.reason) == (200, "Connection established")
        await end.write(b"\x00abc")
        assert await end.read() == b"\x00ABC"
        await end.finish()
        assert await end.read_all() == b"bye"
        entry = await it.ended_entry()
    assert (entry.draft.kind, entry.draft.url) == (EntryKind.TUNNEL, f"{HOST}:{port}")
    assert entry.outcome is not None
    assert (entry.outcome.state, entry.outcome.sent_bytes) == (OutcomeState.DONE, 4)
    assert entry.outcome.received_bytes == 7


@in_a_loop
async def test_a_refused_tunnel_says_why_in_its_status_line() -> None:
    async with edge() as it:
        _, reply = await tunnel(it, 443)
        entry = it.entry()
    assert (reply.status, reply.headers["branchpoint-refused"]) == (403, "1")
    assert HOST in reply.reason
    assert reply.reason.endswith(f"to allow it: %egress allow {HOST}")
    assert f"%egress allow {HOST}\n" in reply.body.decode()
    assert (entry.draft.decision, entry.draft.url) == (Decision.REFUSED, f"{HOST}:443")


@in_a_loop
async def test_a_tunnel_to_a_name_that_leads_inside_is_refused() -> None:
    async with served(upper) as port, edge(Rule(host=HOST, ports=(port,))) as it:
        _, reply = await tunnel(it, port)
    assert reply.status == 403


@in_a_loop
async def test_a_tunnel_to_nobody_is_told_as_such() -> None:
    port = free_port()
    async with edge(open_to(port)) as it:
        _, reply = await tunnel(it, port)
        entry = await it.ended_entry()
    assert reply.status == 502
    assert entry.outcome is not None
    assert entry.outcome.state is OutcomeState.FAILED


@in_a_loop
async def test_a_server_that_goes_away_is_seen_to_go_away() -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        await cut(writer)

    async with served(leave) as port, edge(open_to(port)) as it:
        end, _ = await tunnel(it, port)
        await end.write(b"x")
        with pytest.raises(MachineError):
            await end.read_all()
        entry = await it.ended_entry()
    assert entry.outcome is not None
    assert entry.outcome.state is OutcomeState.UNKNOWN


@in_a_loop
async def test_an_idle_tunnel_is_ended() -> None:
    async with (
        served(upper) as port,
        edge(open_to(port), patience=Patience(idle_s=0.05)) as it,
    ):
        end, _ = await tunnel(it, port)
        with pytest.raises(MachineError):
            await end.read()
        entry = await it.ended_entry()
    assert entry.outcome is not None
    assert "nothing passed" in entry.outcome.note


@in_a_loop
async def test_a_tunnel_ends_when_its_host_is_denied() -> None:
    async with served(upper) as port, edge(open_to(port)) as it:
        end, _ = await tunnel(it, port)
        await end.write(b"a")
        assert await end.read() == b"A"
        it.policies.deny("main", HOST)
        it.gateway.reconsider("main")
        with pytest.raises(MachineError):
            await end.read()
        entry = await it.ended_entry()
    assert entry.outcome is not None
    assert "no longer allowed" in entry.outcome.note


@in_a_loop
async def test_an_upload_ends_when_its_host_is_denied() -> None:
    asked = asyncio.Event()

    async def patient(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()

    async with served(patient) as port, edge(open_to(port)) as it:
        end = it.program()
        url = f"http://{HOST}:{port}/"
        await end.write(request("POST", url, "Content-Length: 9") + b"some")
        await asked.wait()
        it.policies.deny("main", HOST)
        it.gateway.reconsider("main")
        with pytest.raises(MachineError):
            await read_reply(end, "POST")
        entry = await it.ended_entry()
    assert entry.outcome is not None
    assert entry.outcome.state is OutcomeState.UNKNOWN
    assert "no longer allowed" in entry.outcome.note


@in_a_loop
async def test_socks_connects_by_name() -> None:
    async with served(upper) as port, edge(open_to(port)) as it:
        end, code = await socks(it, HOST, port)
        assert code is SOCKS5ReplyCode.SUCCEEDED
        await end.write(b"abc")
        assert await end.read() == b"ABC"
        await end.finish()
        await end.read_all()
        assert (await it.ended_entry()).draft.method == "SOCKS"


@in_a_loop
async def test_socks_connects_to_an_address_that_is_allowed_as_such() -> None:
    async with served(upper) as port, edge(Rule(host="127.0.0.1", ports=(port,))) as it:
        _, code = await socks(it, "127.0.0.1", port)
    assert code is SOCKS5ReplyCode.SUCCEEDED


@pytest.mark.parametrize("host", [HOST, "127.0.0.1", "10.0.0.1", "::1"])
@in_a_loop
async def test_socks_is_refused_by_the_code_for_that(host: str) -> None:
    async with edge() as it:
        _, code = await socks(it, host, 443)
        assert it.entry().draft.decision is Decision.REFUSED
    assert code is SOCKS5ReplyCode.CONNECTION_NOT_ALLOWED_BY_RULESET


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b"\x05\x01\x02", b"\x05\xff"),
        (b"\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50", b"\x05\x00\x05\x07"),
        (b"\x05\x01\x00\x05\x01\x00\x03\x01/\x00\x50", b"\x05\x00\x05\x08"),
        (b"\x05\x01\x00\x05\x01\x00\x09", b"\x05\x00\x05\x08"),
    ],
)
@in_a_loop
async def test_socks_beyond_a_connection_is_declined(said: bytes, answer: bytes) -> None:
    async with edge() as it:
        end = it.program()
        await end.write(said)
        await end.finish()
        assert (await end.read_all()).startswith(answer)
        assert it.entry().draft.decision is Decision.REFUSED


@in_a_loop
async def test_https_is_not_opened_unless_it_must_be() -> None:
    with an_authority() as theirs:
        tls = theirs.server_context(HOST)
        async with served(Web(), tls=tls) as port, edge(open_to(port)) as it:
            end, _ = await tunnel(it, port)
            client = TlsClient(end, theirs)
            await client.hello()
            await client.write(request("GET", "/", f"Host: {HOST}:{port}"))
            assert b"hello" in await client.read() + await client.read()


@in_a_loop
async def test_https_to_a_host_with_a_secret_is_opened_and_the_secret_added() -> None:
    web = Web(body=f"you are {VALUE}".encode())
    with an_authority() as theirs:
        tls = theirs.server_context(HOST)
        async with (
            served(web, tls=tls) as port,
            edge(open_to(port), server_authority=theirs) as it,
        ):
            spec = SecretSpec(name="KEY", hosts=(f"{HOST}:{port}",), source=SecretSource())
            it.vault.add(spec, VALUE)
            client = await opened(it, port)
            await client.write(request("GET", "/a", f"Host: {HOST}:{port}"))
            reply = b""
            while not reply.endswith(b"*"):
                reply += await client.read()
            entry = await it.ended_entry()
    assert "branchpoint" in str(client.issuer)
    assert web.header("authorization") == f"Bearer {VALUE}"
    assert VALUE.encode() not in reply
    assert entry.draft.url == f"https://{HOST}:{port}/a"


@in_a_loop
async def test_methods_are_held_to_inside_https() -> None:
    web = Web()
    with an_authority() as theirs:
        tls = theirs.server_context(HOST)
        async with (
            served(web, tls=tls) as port,
            edge(open_to(port, methods=["GET"]), server_authority=theirs) as it,
        ):
            client = await opened(it, port)
            await client.write(request("DELETE", "/", f"Host: {HOST}:{port}"))
            assert b" 403 " in await client.read()
    assert web.heads == []


@in_a_loop
async def test_inside_https_no_other_host_is_reached() -> None:
    web = Web()
    with an_authority() as theirs:
        tls = theirs.server_context(HOST)
        async with (
            served(web, tls=tls) as port,
            edge(open_to(port, inspect=True), server_authority=theirs) as it,
        ):
            client = await opened(it, port)
            await client.write(request("GET", "/", "Host: other.example.org"))
            assert b" 400 " in await client.read()
    assert web.heads == []


@in_a_loop
async def test_a_server_whose_certificate_is_not_trusted_is_not_told_the_request() -> None:
    web = Web()
    with an_authority() as theirs:
        tls = theirs.server_context(HOST)
        async with served(web, tls=tls) as port, edge(open_to(port, inspect=True)) as it:
            client = await opened(it, port)
            await client.write(request("POST", "/", f"Host: {HOST}:{port}"))
            reply = await client.read()
            entry = await it.ended_entry()
    assert b" 502 " in reply
    assert entry.outcome is not None
    assert entry.outcome.state is OutcomeState.FAILED
    assert "not trusted" in entry.outcome.note
    assert web.heads == []


@in_a_loop
async def test_a_program_that_does_not_trust_the_session_is_in_the_ledger() -> None:
    with an_authority() as another:
        async with served(upper) as port, edge(open_to(port, inspect=True)) as it:
            end, _ = await tunnel(it, port)
            with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
                await TlsClient(end, another).hello()
            await end.close()
            entry = await it.ended_entry()
    assert entry.outcome is not None
    assert entry.outcome.state is OutcomeState.FAILED


@in_a_loop
async def test_plain_http_in_a_tunnel_is_held_to_the_methods_too() -> None:
    web = Web()
    async with served(web) as port, edge(open_to(port, methods=["GET"])) as it:
        for method, status in (("POST", 403), ("GET", 200)):
            end, _ = await tunnel(it, port)
            await end.write(request(method, "/", f"Host: {HOST}:{port}"))
            assert (await read_reply(end)).status == status
    assert [head.method for head in web.heads] == [b"GET"]


@in_a_loop
async def test_what_cannot_be_looked_into_is_not_passed_on() -> None:
    async with served(upper) as port, edge(open_to(port, inspect=True)) as it:
        end, _ = await tunnel(it, port)
        await end.write(b"\x00\x01\x02")
        await end.finish()
        assert await end.read_all() == b""
        assert it.entry().draft.decision is Decision.REFUSED

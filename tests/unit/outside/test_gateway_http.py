"""Plain HTTP through the way out of a machine."""

import asyncio
import gzip
from dataclasses import replace

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.outside.egress import (
    HOST,
    Web,
    edge,
    open_to,
    raw,
    read_reply,
    request,
    served,
)

from branchpoint_vmruntime.errors import MachineError
from branchpoint_vmruntime.ledger import Decision, EntryKind, OutcomeState
from branchpoint_vmruntime.outside.facts import Limits, Price, Rule, SecretSource, SecretSpec
from branchpoint_vmruntime.outside.registries import Group, GroupCredential

VALUE = "s3cret-value-of-the-host"
HELLO = request("GET", f"http://{HOST}/a?b=c")


def bound(port: int, header: str = "Authorization: Bearer {}") -> SecretSpec:
    """A secret of the server's."""
    source = SecretSource()
    return SecretSpec(name="KEY", hosts=(f"{HOST}:{port}",), header=header, source=source)


@in_a_loop
async def test_nothing_is_let_out_unless_it_is_allowed() -> None:
    web = Web()
    async with served(web) as port, edge() as it:
        reply = await it.get(f"http://{HOST}:{port}/a")
    assert (reply.status, reply.headers["branchpoint-refused"]) == (403, "1")
    assert f"%egress allow {HOST}:{port}" in reply.body.decode()
    assert web.heads == []


@in_a_loop
async def test_a_refusal_is_in_the_ledger() -> None:
    async with edge() as it:
        await it.get(f"http://{HOST}/a")
        draft = it.entry().draft
    assert (draft.decision, draft.kind, draft.url) == (
        Decision.REFUSED, EntryKind.REQUEST, f"http://{HOST}/a",
    )  # fmt: skip
    assert HOST in draft.reason


@in_a_loop
async def test_what_is_allowed_goes_out_and_is_recorded() -> None:
    web = Web(headers=[("X-Kind", "test")])
    async with served(web) as port, edge(open_to(port)) as it:
        reply = await it.get(
            f"http://{HOST}:{port}/a?b=c", "X-Mine: 1", method="POST", body=b"what"
        )
        entry = await it.ended_entry()
    assert (reply.status, reply.body, reply.headers["x-kind"]) == (200, b"hello", "test")
    assert (web.heads[0].target, web.bodies[0], web.header("x-mine")) == (b"/a?b=c", b"what", "1")
    assert (entry.draft.method, entry.draft.url) == ("POST", f"http://{HOST}:{port}/a?b=c")
    assert entry.outcome is not None
    assert (entry.outcome.state, entry.outcome.status) == (OutcomeState.DONE, 200)
    assert entry.outcome.received_bytes > len(b"hello")
    assert entry.outcome.sent_bytes > len(b"what")


@in_a_loop
async def test_headers_of_the_connection_stay_behind() -> None:
    web = Web()
    mine = (
        "Proxy-Connection: keep-alive",
        "Connection: x-hop",
        "X-Hop: 1",
        "Proxy-Authorization: x",
    )
    async with served(web) as port, edge(open_to(port)) as it:
        await it.get(f"http://{HOST}:{port}/", *mine, "TE: trailers", "Upgrade: h2c")
    names = {name for name, _ in web.heads[0].headers}
    assert names == {b"host", b"connection"}


@in_a_loop
async def test_a_connection_serves_several_requests() -> None:
    web = Web()
    async with served(web) as port, edge(open_to(port)) as it:
        end = it.program()
        for number in range(3):
            await end.write(request("POST", f"http://{HOST}:{port}/{number}", body=b"x"))
            assert (await read_reply(end)).status == 200
    assert [head.target for head in web.heads] == [b"/0", b"/1", b"/2"]


@in_a_loop
async def test_a_request_that_is_refused_leaves_the_connection_usable() -> None:
    async with served(Web()) as port, edge(open_to(port)) as it:
        end = it.program()
        await end.write(request("GET", "http://other.example.org/"))
        assert (await read_reply(end)).status == 403
        await end.write(request("GET", f"http://{HOST}:{port}/"))
        assert (await read_reply(end)).status == 200


@in_a_loop
async def test_requests_sent_without_waiting_are_answered_in_order() -> None:
    web = Web()
    async with served(web) as port, edge(open_to(port)) as it:
        end = it.program()
        await end.write(b"".join(request("GET", f"http://{HOST}:{port}/{n}") for n in range(3)))
        await end.finish()
        replies = await end.read_all()
    assert replies.count(b"HTTP/1.1 200") == 3
    assert [head.target for head in web.heads] == [b"/0", b"/1", b"/2"]


@in_a_loop
async def test_a_body_in_chunks_arrives_whole() -> None:
    web = Web()
    async with served(web) as port, edge(open_to(port)) as it:
        end = it.program()
        head = request("PUT", f"http://{HOST}:{port}/", "Transfer-Encoding: chunked")
        await end.write(head + b"3\r\nabc\r\n" + b"1\r\nd\r\n" * 400 + b"0\r\n\r\n")
        assert (await read_reply(end)).status == 200
    assert web.bodies == [b"abc" + b"d" * 400]


@in_a_loop
async def test_a_client_that_waits_to_send_its_body_is_told_to() -> None:
    web = Web()
    async with served(web) as port, edge(open_to(port)) as it:
        end = it.program()
        head = request("PUT", f"http://{HOST}:{port}/", "Expect: 100-continue", "Content-Length: 2")
        await end.write(head)
        assert (await end.read()).startswith(b"HTTP/1.1 100 ")
        await end.write(b"ab")
        assert (await read_reply(end)).status == 200
    assert (web.bodies, web.header("expect")) == ([b"ab"], None)


@in_a_loop
async def test_a_client_that_waits_is_refused_before_it_sends_its_body() -> None:
    async with edge() as it:
        reply = await it.get(
            f"http://{HOST}/", "Expect: 100-continue", "Content-Length: 2", method="PUT"
        )
    assert (reply.status, reply.headers["connection"]) == (403, "close")


@in_a_loop
async def test_the_head_alone_can_be_asked_for() -> None:
    async with served(Web(body=b"")) as port, edge(open_to(port)) as it:
        reply = await it.get(f"http://{HOST}:{port}/", method="HEAD")
    assert reply.status == 200


@in_a_loop
async def test_a_method_that_is_not_allowed_is_refused_with_the_line_that_allows_it() -> None:
    web = Web()
    async with served(web) as port, edge(open_to(port, methods=["GET"])) as it:
        assert (await it.get(f"http://{HOST}:{port}/")).status == 200
        reply = await it.get(f"http://{HOST}:{port}/", method="DELETE")
    assert f"%egress allow {HOST}:{port} --method DELETE" in reply.body.decode()
    assert len(web.heads) == 1


@pytest.mark.parametrize(
    ("line", "host"),
    [
        ("GET / HTTP/1.1", HOST),
        (f"GET http://{HOST}/ HTTP/1.1", "other.example.org"),
        (f"GET http://user:word@{HOST}/ HTTP/1.1", HOST),
        (f"GET ftp://{HOST}/ HTTP/1.1", HOST),
        (f"GET http://{HOST}:0/ HTTP/1.1", HOST),
        (f"GET http://{HOST}/#x HTTP/1.1", HOST),
        ("CONNECT nowhere HTTP/1.1", HOST),
        ("nonsense", HOST),
    ],
)
@in_a_loop
async def test_what_is_no_request_to_a_proxy_is_answered_so(line: str, host: str) -> None:
    async with edge(Rule(host=HOST, private=True)) as it:
        end = it.program()
        await end.write(f"{line}\r\nHost: {host}\r\n\r\n".encode())
        reply = await read_reply(end)
        assert it.entry().draft.decision is Decision.REFUSED
        assert "word" not in it.entry().draft.url
    assert reply.status == 400
    assert reply.body.startswith(b"branchpoint: ")


@in_a_loop
async def test_two_lengths_of_one_body_are_not_passed_on() -> None:
    web = Web()
    both = ("Transfer-Encoding: chunked", "Content-Length: 4")
    async with served(web) as port, edge(open_to(port)) as it:
        end = it.program()
        await end.write(request("POST", f"http://{HOST}:{port}/", *both) + b"1\r\nx\r\n0\r\n\r\n")
        await read_reply(end)
    assert (web.header("content-length"), web.bodies) == (None, [b"x"])


@in_a_loop
async def test_a_secret_is_added_and_does_not_come_back() -> None:
    web = Web(headers=[("X-Echo", VALUE)], body=f"you are {VALUE}.".encode())
    async with served(web) as port, edge(open_to(port)) as it:
        it.vault.add(bound(port), VALUE)
        reply = await it.get(f"http://{HOST}:{port}/", "Accept-Encoding: gzip")
    assert web.header("authorization") == f"Bearer {VALUE}"
    assert web.header("accept-encoding") == "identity"
    hidden = "*" * len(VALUE)
    assert (reply.body.decode(), reply.headers["x-echo"]) == (f"you are {hidden}.", hidden)


@in_a_loop
async def test_a_secret_does_not_come_back_packed() -> None:
    body = b"you are " + VALUE.encode()
    web = Web(headers=[("Content-Encoding", "gzip")], body=gzip.compress(body))
    async with served(web) as port, edge(open_to(port)) as it:
        it.vault.add(bound(port), VALUE)
        reply = await it.get(f"http://{HOST}:{port}/")
    assert reply.body == b"you are " + b"*" * len(VALUE)
    assert "content-encoding" not in reply.headers


@in_a_loop
async def test_a_reply_where_a_secret_cannot_be_looked_for_is_not_passed_on() -> None:
    web = Web(headers=[("Content-Encoding", "br")])
    async with served(web) as port, edge(open_to(port)) as it:
        it.vault.add(bound(port), VALUE)
        reply = await it.get(f"http://{HOST}:{port}/")
    assert (reply.status, b"hello" in reply.body) == (502, False)


@in_a_loop
async def test_credentials_of_a_group_go_out_for_its_rules_alone() -> None:
    async with served(web := Web(body=b"bWU6d29yZA==")) as port, edge(open_to(port)) as it:
        lent = GroupCredential(host=HOST, port=port, user="me", password="word", scheme="http")
        rule = replace(open_to(port), group="pip")
        it.gateway.lend([Group(name="pip", rules=(rule,), credentials=(lent,))])
        await it.get(f"http://{HOST}:{port}/")
        assert web.header("authorization") is None
        it.policies.allow("main", [rule])
        reply = await it.get(f"http://{HOST}:{port}/")
    assert web.header("authorization") == "Basic bWU6d29yZA=="
    assert reply.body == b"*" * 12


@in_a_loop
async def test_a_placeholder_for_another_host_is_refused_and_nothing_sent() -> None:
    web = Web()
    async with served(web) as port, edge(open_to(port)) as it:
        source = SecretSource()
        it.vault.add(SecretSpec(name="KEY", hosts=("x.example.org",), source=source), VALUE)
        placeholder = it.vault.issue("main")["KEY"]
        reply = await it.get(f"http://{HOST}:{port}/", f"X-Key: {placeholder}")
        assert it.entry().draft.decision is Decision.REFUSED
    assert (reply.status, web.heads) == (403, [])


@in_a_loop
async def test_calls_of_a_model_are_counted() -> None:
    body = b'{"model": "m", "usage": {"prompt_tokens": 3, "completion_tokens": 4}}'
    web = Web(headers=[("Content-Type", "application/json")], body=body)
    prices = {"m": Price(input=1.0, output=2.0)}
    async with served(web) as port, edge(open_to(port), prices=prices) as it:
        await it.get(f"http://{HOST}:{port}/v1/chat/completions", method="POST", body=b"{}")
        entry = await it.ended_entry()
    assert entry.outcome is not None
    assert entry.outcome.usage is not None
    assert (entry.outcome.usage.tokens_in, entry.outcome.usage.micros) == (3, 11)


@in_a_loop
async def test_a_model_is_asked_for_a_reply_that_can_be_counted() -> None:
    web = Web()
    async with served(web) as port, edge(open_to(port)) as it:
        url = f"http://{HOST}:{port}/v1/responses"
        await it.get(url, "Accept-Encoding: br, zstd", method="POST", body=b"{}")
    assert web.header("accept-encoding") == "identity"


@in_a_loop
async def test_a_model_is_not_called_once_the_budget_is_used_up() -> None:
    web = Web()
    async with served(web) as port, edge(open_to(port), limits=Limits(tokens=0)) as it:
        reply = await it.get(f"http://{HOST}:{port}/v1/completions", method="POST", body=b"{}")
    assert (reply.status, web.heads) == (402, [])
    assert b"tokens" in reply.body


@in_a_loop
async def test_a_websocket_goes_on_as_it_is() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"upgrade: websocket" in head.lower()
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: x\r\n\r\nfirst"
        )
        while data := await reader.read(100):
            writer.write(data.upper())

    switch = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x")
    async with served(echo) as port, edge(open_to(port)) as it:
        end = it.program()
        await end.write(request("GET", f"http://{HOST}:{port}/", *switch))
        got = b""
        while not got.endswith(b"first"):
            got += await end.read()
        assert got.startswith(b"HTTP/1.1 101")
        await end.write(b"frame")
        assert await end.read() == b"FRAME"
        await end.finish()
        assert await end.read_all() == b""
        entry = await it.ended_entry()
    assert entry.outcome is not None
    assert (entry.outcome.status, entry.outcome.state) == (101, OutcomeState.DONE)


@in_a_loop
async def test_an_old_client_gets_a_reply_that_ends_with_its_connection() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
    async with served(raw(chunked)) as port, edge(open_to(port)) as it:
        end = it.program()
        await end.write(f"GET http://{HOST}:{port}/ HTTP/1.0\r\n\r\n".encode())
        reply = await end.read_all()
    assert reply.endswith(b"\r\n\r\nhi")


@in_a_loop
async def test_when_its_machine_ends_a_request_under_way_is_of_unknown_outcome() -> None:
    asked = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await asyncio.Event().wait()

    async with served(silent) as port, edge(open_to(port)) as it:
        end = it.program()
        await end.write(request("POST", f"http://{HOST}:{port}/", body=b"x"))
        await asked.wait()
        await it.channel.end()
        with pytest.raises(MachineError):
            await end.read()
        entry = await it.ended_entry()
    assert entry.outcome is not None
    assert entry.outcome.state is OutcomeState.UNKNOWN


@in_a_loop
async def test_a_program_that_goes_away_ends_its_request() -> None:
    asked = asyncio.Event()
    gone = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()
        gone.set()

    async with served(silent) as port, edge(open_to(port)) as it:
        end = it.program()
        await end.write(request("GET", f"http://{HOST}:{port}/"))
        await asked.wait()
        await end.close()
        await asyncio.wait_for(gone.wait(), 120)
        entry = await it.ended_entry()
    assert entry.outcome is not None
    assert entry.outcome.state is OutcomeState.FAILED


@in_a_loop
async def test_what_is_denied_is_refused_at_once() -> None:
    async with served(Web()) as port, edge(open_to(port)) as it:
        assert (await it.get(f"http://{HOST}:{port}/")).status == 200
        it.policies.deny("main", HOST)
        assert (await it.get(f"http://{HOST}:{port}/")).status == 403

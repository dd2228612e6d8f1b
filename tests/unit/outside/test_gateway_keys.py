"""Requests with an Idempotency-Key: one effect, and the same reply ever after."""

import asyncio

from tests.support.front_end import in_a_loop
from tests.unit.outside.egress import (
    HOST,
    Edge,
    Reply,
    Web,
    edge,
    open_to,
    raw,
    read_reply,
    request,
    served,
)

from branchpoint_vmruntime.ledger import Decision, OutcomeState
from branchpoint_vmruntime.outside.exchange import MOST_KEPT_BYTES, MOST_KEYED_BYTES
from branchpoint_vmruntime.outside.facts import SecretSource, SecretSpec

KEY = "Idempotency-Key: order-1"


async def order(it: Edge, port: int, body: bytes = b"one", *more: str) -> Reply:
    """What a program gets that orders under the key."""
    return await it.get(f"http://{HOST}:{port}/orders", KEY, *more, method="POST", body=body)


@in_a_loop
async def test_the_second_gets_the_reply_of_the_first() -> None:
    web = Web(status=201, headers=[("X-Order", "7")])
    async with served(web) as port, edge(open_to(port)) as it:
        first, second = await order(it, port), await order(it, port)
        decisions = [entry.draft.decision for entry in it.entries()]
    assert (first.status, first.body) == (second.status, second.body) == (201, b"hello")
    assert second.headers["x-order"] == "7"
    assert second.headers["branchpoint-replayed"] == "true"
    assert "branchpoint-replayed" not in first.headers
    assert len(web.heads) == 1
    assert web.header("idempotency-key") == "order-1"
    assert decisions == [Decision.ALLOWED, Decision.REPLAYED]


@in_a_loop
async def test_two_at_a_time_have_one_effect() -> None:
    web = Web()
    async with served(web) as port, edge(open_to(port)) as it:
        replies = await asyncio.gather(order(it, port), order(it, port))
    assert [reply.status for reply in replies] == [200, 200]
    assert len(web.heads) == 1


@in_a_loop
async def test_another_body_under_the_key_is_refused() -> None:
    web = Web()
    async with served(web) as port, edge(open_to(port)) as it:
        await order(it, port)
        assert (await order(it, port, b"two")).status == 422
    assert len(web.heads) == 1


@in_a_loop
async def test_one_that_was_cut_off_is_unknown_until_someone_decides() -> None:
    web = Web()
    async with served(raw(b"")) as port, edge(open_to(port)) as it:
        assert (await order(it, port)).status == 502
        second = await order(it, port)
        assert second.status == 409
        assert "Branchpoint-Unknown: retry" in second.body.decode()
        outcome = it.entries()[0].outcome
        assert outcome is not None
        assert outcome.state is OutcomeState.UNKNOWN
        third = await order(it, port, b"one", "Branchpoint-Unknown: retry")
    assert third.status == 502
    assert web.heads == []


@in_a_loop
async def test_a_refusal_of_the_server_frees_the_key() -> None:
    web = Web(status=401)
    async with served(web) as port, edge(open_to(port)) as it:
        assert (await order(it, port)).status == 401
        web.status = 200
        assert (await order(it, port)).status == 200
    assert len(web.heads) == 2


@in_a_loop
async def test_the_reply_is_kept_for_the_next_one_when_the_program_goes_away() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()
    web = Web()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await go_on.wait()
        await web(reader, writer)

    async with served(slow) as port, edge(open_to(port)) as it:
        end = it.program()
        await end.write(request("POST", f"http://{HOST}:{port}/orders", KEY, body=b"one"))
        await asked.wait()
        await end.close()
        go_on.set()
        await it.ended_entry()
        second = await order(it, port)
    assert second.headers["branchpoint-replayed"] == "true"
    assert len(web.heads) == 1


@in_a_loop
async def test_one_that_outlives_its_machine_is_recorded_all_the_same() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await go_on.wait()
        await Web()(reader, writer)

    async with served(slow) as port, edge(open_to(port)) as it:
        end = it.program()
        await end.write(request("POST", f"http://{HOST}:{port}/orders", KEY, body=b"one"))
        await asked.wait()
        await it.channel.end()
        await it.serving
        assert it.entry().outcome is None
        go_on.set()
        entry = await it.ended_entry()
        assert it.ledger.result(entry.number) is not None
    assert entry.outcome is not None
    assert entry.outcome.state is OutcomeState.DONE


@in_a_loop
async def test_one_that_outlives_the_session_is_of_unknown_outcome() -> None:
    asked = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()

    async with served(silent) as port, edge(open_to(port)) as it:
        end = it.program()
        await end.write(request("POST", f"http://{HOST}:{port}/orders", KEY, body=b"one"))
        await asked.wait()
        await it.channel.end()
        await it.serving
        await it.gateway.close()
        outcome = it.entry().outcome
    assert outcome is not None
    assert outcome.state is OutcomeState.UNKNOWN


@in_a_loop
async def test_nothing_of_a_kept_reply_is_secret() -> None:
    value = "s3cret-value-of-the-host"
    web = Web(headers=[("X-Echo", value)], body=value.encode())
    async with served(web) as port, edge(open_to(port)) as it:
        spec = SecretSpec(name="KEY", hosts=(f"{HOST}:{port}",), source=SecretSource())
        it.vault.add(spec, value)
        await order(it, port)
        entry = await it.ended_entry()
        kept = it.ledger.result(entry.number)
        second = await order(it, port)
    assert kept is not None
    assert value.encode() not in kept
    assert second.body == b"*" * len(value)


@in_a_loop
async def test_one_that_waited_goes_out_by_what_holds_when_its_turn_has_come() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()
    web = Web(status=401)

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await go_on.wait()
        await web(reader, writer)

    async with served(slow) as port, edge(open_to(port)) as it:
        first = asyncio.create_task(order(it, port))
        await asked.wait()
        second = asyncio.create_task(order(it, port))
        await asyncio.sleep(0.05)
        it.policies.deny("main", HOST)
        go_on.set()
        assert [(await first).status, (await second).status] == [401, 403]
    assert len(web.heads) == 1


@in_a_loop
async def test_one_whose_body_comes_late_goes_out_with_the_secret_there_is_by_then() -> None:
    web = Web()
    async with served(web) as port, edge(open_to(port)) as it:
        spec = SecretSpec(name="KEY", hosts=(f"{HOST}:{port}",), source=SecretSource())
        it.vault.add(spec, "expired")
        end = it.program()
        url = f"http://{HOST}:{port}/orders"
        await end.write(request("POST", url, KEY, "Content-Length: 3"))
        await asyncio.sleep(0.05)
        it.vault.add(spec, "renewed")
        await end.write(b"one")
        assert (await read_reply(end)).status == 200
    assert web.header("authorization") == "Bearer renewed"


@in_a_loop
async def test_too_large_a_reply_is_passed_on_but_not_kept() -> None:
    web = Web(body=bytes(MOST_KEPT_BYTES + 1))
    async with served(web) as port, edge(open_to(port)) as it:
        first, second = await order(it, port), await order(it, port)
    assert (first.status, len(first.body)) == (200, MOST_KEPT_BYTES + 1)
    assert second.status == 409
    assert b"too large" in second.body
    assert len(web.heads) == 1


@in_a_loop
async def test_too_large_a_request_is_refused_before_anything_is_sent() -> None:
    web = Web()
    async with served(web) as port, edge(open_to(port)) as it:
        end = it.program()
        length = f"Content-Length: {MOST_KEYED_BYTES + 1}"
        await end.write(request("POST", f"http://{HOST}:{port}/orders", KEY, length))

        async def pour() -> None:
            for _ in range((MOST_KEYED_BYTES >> 20) + 1):
                await end.write(bytes(1 << 20))

        reply, _ = await asyncio.gather(read_reply(end), pour())
    assert (reply.status, web.heads) == (413, [])

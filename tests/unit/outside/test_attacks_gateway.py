"""Ways round the policy and the ledger, and ways to use up the host, that must not work."""

import asyncio
from ipaddress import ip_address

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.outside.egress import (
    HOST,
    Edge,
    Web,
    edge,
    open_to,
    read_reply,
    request,
    served,
    tunnel,
)

from branchpoint_vmruntime.errors import RefusedError
from branchpoint_vmruntime.ledger import Decision
from branchpoint_vmruntime.outside import gateway
from branchpoint_vmruntime.outside.facts import Limits, Rule
from branchpoint_vmruntime.outside.upstream import check

KEY = "Idempotency-Key: order-1"


class DeniedMeanwhile(dict[str, list[str]]):
    """Addresses of names; while one is looked up, its host is denied."""

    it: Edge

    def get(self, name: str, _default: object = None) -> list[str]:
        self.it.policies.deny("main", name)
        return ["127.0.0.1"]


@in_a_loop
async def test_what_is_denied_while_its_name_is_looked_up_does_not_go_out() -> None:
    names = DeniedMeanwhile({HOST: []})
    async with served(web := Web()) as port, edge(open_to(port), addresses=names) as it:
        names.it = it
        reply = await it.get(f"http://{HOST}:{port}/", method="POST", body=b"x")
        decision = it.entry().draft.decision
    assert (reply.status, web.heads, decision) == (403, [], Decision.REFUSED)


@in_a_loop
async def test_a_tunnel_that_is_denied_while_its_name_is_looked_up_is_not_made() -> None:
    names = DeniedMeanwhile({HOST: []})
    async with served(Web()) as port, edge(open_to(port), addresses=names) as it:
        names.it = it
        _, reply = await tunnel(it, port)
        decision = it.entry().draft.decision
    assert (reply.status, decision) == (403, Decision.REFUSED)


@pytest.mark.parametrize(
    "address", ["fec0::1", "::127.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::", "::ffff:0:7f00:1"]
)
def test_no_spelling_of_an_address_leads_into_a_private_network(address: str) -> None:
    with pytest.raises(RefusedError):
        check(Rule(host=HOST), HOST, [ip_address(address)])


@in_a_loop
async def test_a_refusal_takes_little_of_the_ledger_whatever_was_asked() -> None:
    async with edge(Rule(host=HOST, methods=("GET",))) as it:
        await it.get(f"http://{HOST}/{'a' * 20_000}", method="M" * 20_000)
        end = it.program()
        await end.write(b"GET / HTTP/1.1\r\n" + b"\x01" * 20_000 + b"\r\n\r\n")
        await read_reply(end)
        sizes = [len(repr(entry)) for entry in it.entries()]
    assert len(sizes) == 2
    assert max(sizes) < 8_000


@in_a_loop
async def test_requests_that_differ_where_the_ledger_does_not_see_are_two() -> None:
    url = f"{HOST}:{{}}/{'a' * 3000}"
    async with served(web := Web()) as port, edge(open_to(port)) as it:
        one = await it.get(f"http://{url.format(port)}/1", KEY, method="POST", body=b"x")
        other = await it.get(f"http://{url.format(port)}/2", KEY, method="POST", body=b"x")
        again = await it.get(f"http://{url.format(port)}/1", KEY, method="POST", body=b"x")
    assert [one.status, other.status, again.status] == [200, 422, 200]
    assert (again.headers["branchpoint-replayed"], len(web.heads)) == ("true", 1)


@in_a_loop
async def test_requests_under_keys_hold_no_more_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gateway, "MOST_HELD_BYTES", 1000)
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await go_on.wait()
        await Web()(reader, writer)

    async with served(slow) as port, edge(open_to(port)) as it:
        url = f"http://{HOST}:{port}/orders"
        end = it.program()
        await end.write(request("POST", url, KEY, body=b"a" * 900))
        await asked.wait()
        full = await it.get(url, "Idempotency-Key: order-2", method="POST", body=b"b" * 900)
        # Its program is gone, but not what it asked for.
        await end.close()
        still = await it.get(url, "Idempotency-Key: order-2", method="POST", body=b"b" * 900)
        go_on.set()
        then = still
        while then.status == 503:
            then = await it.get(url, "Idempotency-Key: order-2", method="POST", body=b"b" * 900)
    assert [full.status, still.status, then.status] == [503, 503, 200]


@in_a_loop
async def test_a_reply_for_which_there_is_no_room_is_passed_on_and_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gateway, "MOST_HELD_BYTES", 1000)
    async with served(web := Web(body=b"a" * 2000)) as port, edge(open_to(port)) as it:
        url = f"http://{HOST}:{port}/orders"
        first = await it.get(url, KEY, method="POST", body=b"x")
        second = await it.get(url, KEY, method="POST", body=b"x")
        web.body = b"short"
        third = await it.get(url, "Idempotency-Key: 2", method="POST", body=b"x" * 900)
    assert (first.body, second.status, third.status) == (b"a" * 2000, 409, 200)


@in_a_loop
async def test_calls_at_once_do_not_go_far_beyond_a_budget() -> None:
    asked, go_on = 0, asyncio.Event()
    web = Web(
        headers=[("Content-Type", "application/json")],
        body=b'{"model": "m", "usage": {"prompt_tokens": 10, "completion_tokens": 0}}',
    )

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        if asked == gateway.MOST_COUNTED_AT_ONCE:
            go_on.set()
        await go_on.wait()
        await web(reader, writer)

    async with served(slow) as port, edge(open_to(port), limits=Limits(tokens=10)) as it:
        url = f"http://{HOST}:{port}/v1/chat/completions"
        calls = [it.get(url, method="POST", body=b"{}") for _ in range(30)]
        replies = await asyncio.gather(*calls)
    assert sorted(reply.status for reply in replies) == [200] * 8 + [402] * 22
    assert len(web.heads) == 8

"""Where names may lead, and how the host's own proxies are used."""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from ipaddress import ip_address

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.outside.egress import HOST, served

from branchpoint_vmruntime.errors import OutsideError, RefusedError
from branchpoint_vmruntime.outside.facts import Rule
from branchpoint_vmruntime.outside.upstream import THIS_COMPUTER, Address, Upstream, check
from branchpoint_vmruntime.outside.wire import SocketWire

OUTSIDE = "93.184.215.14"


def upstream(*addresses: str, proxies: dict[str, str] | None = None) -> Upstream:
    """One for which every name leads there."""

    async def resolve(host: str, port: int) -> Sequence[Address]:
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [ip_address(address) for address in addresses]

    return Upstream(trust=ssl.create_default_context(), resolve=resolve, proxies=proxies or {})


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1",
     "169.254.169.254", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "198.18.0.1",
     "::", "::1", "fc00::1", "fe80::1", "ff02::1", "::ffff:10.0.0.1", "64:ff9b::a00:1",
     "2002:a00:1::", "2001:db8::1"],
)  # fmt: skip
def test_addresses_that_are_not_of_the_outside_world_are_refused(address: str) -> None:
    with pytest.raises(RefusedError) as caught:
        check(Rule(host=HOST), HOST, [ip_address(OUTSIDE), ip_address(address)])
    assert caught.value.hint == f"%egress allow {HOST} --private"


@pytest.mark.parametrize(
    ("ports", "line"),
    [((80, 443), HOST), ((8443,), f"{HOST}:8443"), ((22, 80), f"{HOST}:22 {HOST}:80")],
)
def test_the_hint_allows_the_same_ports(ports: tuple[int, ...], line: str) -> None:
    with pytest.raises(RefusedError) as caught:
        check(Rule(host=HOST, ports=ports), HOST, [ip_address("10.0.0.1")])
    assert caught.value.hint == f"%egress allow {line} --private"


@in_a_loop
async def test_a_name_of_its_own_leads_to_this_computer_if_it_is_allowed_as_private() -> None:
    behind_a_proxy = upstream(OUTSIDE, proxies={"http": "http://proxy.example.com:3128"})
    private = Rule(host=THIS_COMPUTER, ports=(8000,), private=True)
    route = await behind_a_proxy.find(private, THIS_COMPUTER, 8000)
    assert (str(route.addresses[0]), route.proxy) == ("127.0.0.1", None)
    with pytest.raises(RefusedError) as caught:
        await behind_a_proxy.find(Rule(host=THIS_COMPUTER, ports=(8000,)), THIS_COMPUTER, 8000)
    assert caught.value.hint == f"%egress allow {THIS_COMPUTER}:8000 --private"


@pytest.mark.parametrize("address", [OUTSIDE, "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])
def test_addresses_of_the_outside_world_are_fine(address: str) -> None:
    check(Rule(host=HOST), HOST, [ip_address(address)])


def test_the_hosts_own_addresses_are_refused_whatever_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def is_own(self: socket.socket, address: tuple[str, int]) -> None:
        assert address[0] == OUTSIDE

    monkeypatch.setattr("socket.socket.bind", is_own, raising=False)
    with pytest.raises(RefusedError, match="the host itself"):
        check(Rule(host=HOST), HOST, [ip_address(OUTSIDE)])


def test_a_private_rule_lets_a_name_lead_inside() -> None:
    check(Rule(host=HOST, private=True), HOST, [ip_address("10.0.0.1")])


def test_a_rule_that_names_the_address_itself_allows_it_and_no_other() -> None:
    rule = Rule(host="10.0.0.1")
    check(rule, "10.0.0.1", [ip_address("10.0.0.1")])
    with pytest.raises(RefusedError):
        check(rule, "10.0.0.1", [ip_address("10.0.0.2")])


@in_a_loop
async def test_the_address_that_was_checked_is_the_one_that_is_used() -> None:
    asked = 0

    async def turning(host: str, port: int) -> Sequence[Address]:
        nonlocal asked
        asked += 1
        return [ip_address(OUTSIDE if asked == 1 else "127.0.0.1")]

    there = Upstream(trust=ssl.create_default_context(), resolve=turning, proxies={})
    route = await there.find(Rule(host=HOST), HOST, 80)
    assert (route.addresses, asked) == ((ip_address(OUTSIDE),), 1)


@in_a_loop
async def test_the_next_address_is_tried_if_one_does_not_answer() -> None:
    async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        await writer.drain()

    async with served(hello) as port:
        there = upstream("::1", "127.0.0.1")
        wire = await there.connect(await there.find(Rule(host=HOST, private=True), HOST, port))
        try:
            assert await wire.read() == b"hello"
        finally:
            await wire.close()


@in_a_loop
async def test_a_silent_host_is_given_up() -> None:
    # A queue of connections that is full takes no more.
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        port = silent.getsockname()[1]
        there = Upstream(trust=ssl.create_default_context(), proxies={}, connect_timeout_s=0.05)
        rule = Rule(host="127.0.0.1", private=True)
        route = await there.find(rule, "127.0.0.1", port)
        kept: list[SocketWire] = []

        async def crowd() -> None:
            for _ in range(8):
                kept.append(await there.connect(route))  # noqa: PERF401

        with pytest.raises(OutsideError, match="did not answer within"):
            await crowd()
        for wire in kept:
            await wire.close()


@in_a_loop
async def test_the_hosts_proxy_is_asked_by_name() -> None:
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhello")
        await writer.drain()

    async with served(proxy) as port:
        there = upstream(proxies={"https": f"http://me:pass%21@127.0.0.1:{port}"})
        wire = await there.connect(await there.find(Rule(host=HOST), HOST, 443))
        try:
            assert await wire.read() == b"hello"
        finally:
            await wire.close()
    assert asked[0].startswith(f"CONNECT {HOST}:443 HTTP/1.1\r\n".encode())
    assert b"Proxy-Authorization: Basic bWU6cGFzcyE=\r\n" in asked[0]


@in_a_loop
async def test_what_the_hosts_proxy_refuses_is_told() -> None:
    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Who are you\r\n\r\n")
        await writer.drain()

    async with served(proxy) as port:
        there = upstream(proxies={"all": f"http://127.0.0.1:{port}"})
        with pytest.raises(OutsideError, match="407 Who are you"):
            await there.connect(await there.find(Rule(host=HOST), HOST, 443))


@in_a_loop
async def test_behind_a_proxy_a_known_name_still_may_not_lead_inside() -> None:
    with pytest.raises(RefusedError):
        await upstream("10.0.0.1", proxies={"https": "http://127.0.0.1:1"}).find(
            Rule(host=HOST), HOST, 443
        )


@pytest.mark.parametrize("excepted", ["*", HOST, ".example.org", "a, example.org", f"{HOST}:443"])
@in_a_loop
async def test_what_the_host_takes_from_its_proxy_goes_there_directly(excepted: str) -> None:
    there = upstream(OUTSIDE, proxies={"https": "http://127.0.0.1:1", "no": excepted})
    assert (await there.find(Rule(host=HOST), HOST, 443)).proxy is None

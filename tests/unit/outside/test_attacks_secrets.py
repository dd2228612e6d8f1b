"""Ways for a machine to learn a secret's value that must not work."""

import base64
import contextlib
import gzip
from collections.abc import Iterator
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
from branchpoint_vmruntime.outside.facts import Rule, SecretSource, SecretSpec
from branchpoint_vmruntime.outside.masking import Mask
from branchpoint_vmruntime.outside.registries import Group, GroupCredential
from branchpoint_vmruntime.outside.replies import Screen
from branchpoint_vmruntime.outside.vault import Vault

VALUE = "s3cret-value-of-the-host"


def bound(port: int, header: str = "Authorization: Bearer {}") -> SecretSpec:
    """A secret of the server's."""
    return SecretSpec(name="KEY", hosts=(f"{HOST}:{port}",), header=header, source=SecretSource())


@pytest.mark.parametrize(
    "answer",
    [
        f"HTTP/1.1 200 OK\r\nAuthorization {VALUE}\r\n\r\n",
        f"HTTP/1.1 200 OK\r\nX-{VALUE}\x01: 1\r\n\r\n",
        f"HTTP/1.1 {VALUE}\r\n\r\n",
        f"{VALUE}\r\n\r\n",
        f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{VALUE}\r\n",
        f"HTTP/1.1 200 OK\r\nTransfer-Encoding: {VALUE}\r\n\r\n",
        f"HTTP/1.1 200 OK\r\nContent-Length: {VALUE}\r\n\r\n",
    ],
)
@in_a_loop
async def test_what_is_no_http_is_not_quoted(answer: str) -> None:
    async with served(raw(answer.encode())) as port, edge(open_to(port)) as it:
        it.vault.add(bound(port), VALUE)
        end = it.program()
        await end.write(request("GET", f"http://{HOST}:{port}/", "Connection: close"))
        told = b""
        with contextlib.suppress(MachineError):
            while data := await end.read():
                told += data
        entry = await it.ended_entry()
    assert VALUE not in told.decode(errors="replace")
    assert VALUE not in repr(entry)


@in_a_loop
async def test_the_status_line_of_a_switch_bears_no_secret() -> None:
    switch = f"HTTP/1.1 101 {VALUE}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    async with served(raw(switch.encode())) as port, edge(open_to(port)) as it:
        it.vault.add(bound(port), VALUE)
        end = it.program()
        await end.write(
            request("GET", f"http://{HOST}:{port}/", "Connection: Upgrade", "Upgrade: websocket")
        )
        told = await end.read()
    assert told.startswith(b"HTTP/1.1 101 ***")


@pytest.mark.parametrize("header", ["", "X-Other: {}"])
@in_a_loop
async def test_what_an_earlier_request_left_there_does_not_come_back(header: str) -> None:
    async with served(web := Web(body=VALUE.encode())) as port, edge(open_to(port)) as it:
        it.vault.add(bound(port, header), VALUE)
        placeholder = it.vault.issue("main")["KEY"]
        await it.get(f"http://{HOST}:{port}/names/{placeholder}", method="PUT")
        reply = await it.get(f"http://{HOST}:{port}/names")
    assert VALUE.encode() in web.heads[0].target
    assert reply.body == b"*" * len(VALUE)


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "user:", "password="])
@pytest.mark.parametrize("after", ["", "\n", "xy"])
def test_a_secret_is_masked_in_the_middle_of_base64(before: str, after: str) -> None:
    vault = Vault()
    vault.add(bound(80), VALUE)
    masks = vault.inject("main", f"{HOST}:80", b"/", ()).masks
    written = base64.b64encode(f"{before}{VALUE}{after}".encode())
    mask = Mask(masks)
    shown = mask.feed(written) + mask.flush()
    # Of the first and the last letter some bits may be seen.
    assert shown.count(b"*") >= len(VALUE[1:-1]) * 4 // 3


@pytest.mark.parametrize("name", ["range", "if-range", "sec-websocket-extensions"])
@in_a_loop
async def test_a_server_that_knows_a_secret_is_not_asked_for_parts_of_a_reply(name: str) -> None:
    async with served(web := Web()) as port, edge(open_to(port)) as it:
        await it.get(f"http://{HOST}:{port}/", f"{name}: bytes=0-0")
        assert web.header(name) == "bytes=0-0"
        it.vault.add(bound(port), VALUE)
        await it.get(f"http://{HOST}:{port}/", f"{name}: bytes=0-0")
    assert web.header(name) is None


@in_a_loop
async def test_no_secret_goes_to_the_port_of_https_in_the_clear() -> None:
    async with edge(Rule(host=HOST, private=True)) as it:
        spec = SecretSpec(name="KEY", hosts=(HOST,), source=SecretSource())
        it.vault.add(spec, VALUE)
        reply = await it.get(f"http://{HOST}:443/")
    assert (reply.status, b"by HTTPS alone" in reply.body) == (403, True)


@in_a_loop
async def test_what_is_lent_for_https_does_not_go_out_in_the_clear() -> None:
    async with served(web := Web()) as port, edge() as it:
        rule = replace(open_to(port), group="pip")
        lent = GroupCredential(host=HOST, port=port, user="me", password=VALUE)
        it.gateway.lend([Group(name="pip", rules=(rule,), credentials=(lent,))])
        it.policies.allow("main", [rule])
        await it.get(f"http://{HOST}:{port}/")
    assert web.header("authorization") is None


@in_a_loop
async def test_a_password_that_was_lent_does_not_come_back() -> None:
    async with served(Web(body=VALUE.encode())) as port, edge() as it:
        rule = replace(open_to(port), group="pip")
        lent = GroupCredential(host=HOST, port=port, user="me", password=VALUE, scheme="http")
        it.gateway.lend([Group(name="pip", rules=(rule,), credentials=(lent,))])
        it.policies.allow("main", [rule])
        reply = await it.get(f"http://{HOST}:{port}/")
    assert reply.body == b"*" * len(VALUE)


@in_a_loop
async def test_a_reply_is_unpacked_no_faster_than_it_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unpacked: list[int] = []
    feed = Screen.feed

    def counted(self: Screen, data: bytes) -> Iterator[bytes]:
        for piece in feed(self, data):
            unpacked.append(len(piece))
            yield piece

    monkeypatch.setattr(Screen, "feed", counted)
    bomb = gzip.compress(bytes(8 << 20))
    web = Web(body=bomb, headers=[("Content-Encoding", "gzip")])
    async with served(web) as port, edge(open_to(port)) as it:
        it.vault.add(bound(port), VALUE)
        end = it.program()
        await end.write(request("GET", f"http://{HOST}:{port}/"))
        first = await end.read()
        assert sum(unpacked) < 2 << 20
        reply = await read_reply(end, data=first)
    assert (len(reply.body), reply.body.strip(b"\0")) == (8 << 20, b"")

"""A secret that was used is in no machine, no checkpoint, no file and no log."""

import json
import logging
import secrets
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.support.front_end import in_a_loop
from tests.support.searching import in_files, in_memory, traces

from branchpoint_vmruntime import Manifest, Runtime
from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.outside.authority import Authority
from branchpoint_vmruntime.outside.facts import Rule, SecretSource, SecretSpec

pytestmark = pytest.mark.vm

# What is put together inside, so that finding it shows that the search sees what is inside.
MARKER = "marker-" + "0123456789-" * 3
WRITTEN = MARKER.replace("0", "9")
MARK = """
import os
marker = "-".join(["marker", *["0123456789"] * 3, ""])
with open("/root/marked", "w") as file:
    file.write(marker)
    file.flush()
    os.fsync(file.fileno())
"""
ASK = """
import base64, http.client, json, os, ssl
key = os.environ["KEY"]
basic = base64.b64encode(f"user:{{key}}".encode()).decode()
proxy = "127.0.0.1", 3128
plain = http.client.HTTPConnection(*proxy, timeout=60)
trust = ssl.create_default_context(cafile="/run/branchpoint/ca.pem")
opened = http.client.HTTPSConnection(*proxy, timeout=60, context=trust)
opened.set_tunnel("127.0.0.1", {tls_port})
answers = []
for written in ("", f"Bearer {{key}}", f"Basic {{basic}}"):
    headers = {{"Authorization": written}} if written else {{}}
    for connection, place in ((plain, "http://127.0.0.1:{port}"), (opened, "")):
        connection.request("GET", f"{{place}}/?key={{key}}", headers=headers)
        reply = connection.getresponse()
        answers.append((reply.status, str(reply.headers), reply.read().decode()))
print(json.dumps(answers))
"""
REQUESTS = 6


class Mirror(BaseHTTPRequestHandler):
    """Sends back everything it gets, in its headers and in its body."""

    got: list[str]

    def do_GET(self) -> None:
        """Answer."""
        told = f"{self.path}\n{self.headers}"
        self.got.append(told)
        body = json.dumps({"told": told}).encode()
        self.send_response(200)
        self.send_header("X-Path", self.path)
        self.send_header("X-Authorization", self.headers["Authorization"])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base's name)
        """Say nothing."""


@dataclass(frozen=True)
class Mirrors:
    """Where the two are, and who vouches for the second one's certificate."""

    port: int
    tls_port: int
    authority: Path


@contextmanager
def serving(server: ThreadingHTTPServer) -> Generator[int]:
    """It serves; its port."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def mirrors(tmp_path: Path) -> Generator[Mirrors]:
    Mirror.got = []
    authority = Authority.of(tmp_path)
    file = tmp_path / "trusted.pem"
    file.write_text(authority.certificate_pem)
    plain, opened = (ThreadingHTTPServer(("127.0.0.1", 0), Mirror) for _ in range(2))
    context = authority.server_context("127.0.0.1")
    opened.socket = context.wrap_socket(opened.socket, server_side=True)
    with serving(plain) as port, serving(opened) as tls_port:
        yield Mirrors(port, tls_port, file)


async def asked(branch: Branch, mirrors: Mirrors) -> str:
    """All that a branch hears when it uses the secret in every way."""
    result = await branch.run(ASK.format(port=mirrors.port, tls_port=mirrors.tls_port))
    assert result.status == "ok", result
    answers = json.loads(result.text)
    assert [status for status, _, _ in answers] == [200] * REQUESTS, answers
    return result.text


@in_a_loop
async def test_a_secret_that_was_used_is_nowhere(
    home: Home,
    mirrors: Mirrors,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("SSL_CERT_FILE", str(mirrors.authority))
    ports = mirrors.port, mirrors.tls_port
    word = secrets.token_hex(12)
    value = f"s3cret/{word}+="
    needles = [*traces(word.encode()), MARKER.encode()]
    hosts = tuple(f"127.0.0.1:{port}" for port in ports)
    spec = SecretSpec(name="KEY", hosts=hosts, source=SecretSource())
    rule = Rule(host="127.0.0.1", ports=ports, private=True)
    heard: list[str] = []
    async with Runtime(home) as runtime, runtime.session(Manifest()) as session:
        outside = session.outside
        await outside.allow(session.current.name, [rule])
        await outside.add_secret(spec, value)
        await session.current.run(MARK)
        heard.append(await asked(session.current, mirrors))
        point = await session.checkpoint("used")
        (fork,) = (await session.fork(1, start=point)).branches
        heard.append(await asked(fork, mirrors))
        await session.rollback(point)
        heard.append(await asked(session.current, mirrors))
        await session.checkpoint("again")

        main = session.current.name
        assert outside.vault.issue(main)["KEY"] != outside.vault.issue(fork.name)["KEY"]
        for branch in map(session.branch, (main, fork.name)):
            # A page that was not written since the machine woke is in the files alone. Several, as
            # one may lie across two pages that are not neighbours in the machine's memory.
            await branch.run("written = [marker.replace('0', '9') for _ in range(8)]")
            found = in_memory(branch.machine.pid, [*needles, WRITTEN.encode()])
            assert found - {MARKER.encode()} == {WRITTEN.encode()}
        kept = [folder for folder in home.root.iterdir() if folder != home.images]
        asked_with = outside.vault.issue(main)["KEY"].encode()
        files = in_files(kept, [*needles, asked_with])
        marked = files.pop(MARKER.encode())
        assert any(home.flat in path.parents for path in marked), "the search finds no memory"
        assert any(path.suffix == ".qcow2" for path in marked), "the search finds no disk"
        written = files.pop(asked_with)
        assert any("ledger" in path.name for path in written), "the search finds no ledger"
        assert {trace: paths for trace, paths in files.items() if paths} == {}

    # In Basic credentials it is there in base64 alone.
    assert len(Mirror.got) == 3 * REQUESTS
    assert sum(value in told for told in Mirror.got) == 2 * REQUESTS, Mirror.got
    assert all("*" * len(value) in text for text in heard)
    for said in (*heard, caplog.text):
        assert not [trace for trace in traces(word.encode()) if trace.decode() in said]

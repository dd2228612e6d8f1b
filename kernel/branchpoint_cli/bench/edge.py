"""What the outside is measured with: a machine, and servers and clients on both sides of it."""

import asyncio
import inspect
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from branchpoint_cli.bench import peers
from branchpoint_vmruntime import Manifest, Runtime
from branchpoint_vmruntime.errors import MachineError
from branchpoint_vmruntime.outside.authority import Authority, trust_bundle
from branchpoint_vmruntime.outside.facts import Rule
from branchpoint_vmruntime.owned_session import OwnedSession

SOURCE = inspect.getsource(peers)
# Where a machine has whom it trusts.
GUEST_CERTIFICATES = "/run/branchpoint/ca.pem"
PATIENCE_S = 600.0
# In the guest's kernel: `peers` as a module, and its server in another process.
SET_UP = f"""
import subprocess, types
peers = types.ModuleType("peers")
exec({SOURCE!r}, peers.__dict__)
server = subprocess.Popen(
    ["python3", "-P", "-c", {SOURCE!r}, "serve"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
)
print(server.stdout.readline())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request to be timed, of so many bytes; see `peers.connect` for the ways."""

    way: str
    port: int
    size: int
    method: str = "GET"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An open session whose machine reaches servers on the host, and the ports of all servers.

    `unseen` is HTTPS that is passed on unread, `seen` HTTPS that is opened on the way; `inside` is
    the port in the guest, `forwarded` the host's that leads to it.
    """

    session: OwnedSession
    scratch: Path
    certificates: Path
    plain: int
    unseen: int
    seen: int
    inside: int
    forwarded: int

    async def in_guest(self, asks: Sequence[Ask], rounds: int = 1) -> list[list[float]]:
        """The seconds of each, by a client in the guest: each once, and so for each round."""
        done = await self.session.current.execute(
            ["python3", *_asking(asks, rounds, GUEST_CERTIFICATES)], timeout_s=PATIENCE_S
        )
        if done.status:
            raise MachineError(f"the client in the guest ended with {done.status}: {done.stderr}")
        return json.loads(done.stdout)

    async def on_host(self, asks: Sequence[Ask], rounds: int = 1) -> list[list[float]]:
        """The same by a client on the host."""
        arguments = _asking(asks, rounds, str(self.certificates))
        client = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=PIPE)
        said, _ = await client.communicate()
        if client.returncode:
            raise MachineError(f"the client on the host ended with {client.returncode}")
        return json.loads(said)

    async def evaluate(self, code: str) -> str:
        """What code prints in the machine's kernel."""
        result = await self.session.current.run(code, timeout_s=PATIENCE_S)
        if result.status != "ok":
            said = f"{result.error_name}: {result.error_value}"
            raise MachineError(f"a measured cell failed: {said}")
        return result.text


@asynccontextmanager
async def edge(runtime: Runtime) -> AsyncGenerator[Edge]:
    """A session of its own, which may reach servers that were started for it."""
    with TemporaryDirectory(prefix="bp-edge-") as folder:
        scratch = Path(folder)
        authority = Authority.of(scratch)
        certificates = scratch / "trusted.pem"
        certificates.write_text(trust_bundle(authority))
        secure = ("-m", "branchpoint_cli.bench.https_peer", folder)
        async with AsyncExitStack() as stack:
            plain = await stack.enter_async_context(_server("-c", SOURCE, "serve"))
            unseen = await stack.enter_async_context(_server(*secure))
            seen = await stack.enter_async_context(_server(*secure))
            with _trusting(certificates):
                session = await stack.enter_async_context(runtime.session(Manifest()))
                rules = [
                    Rule(host=peers.HERE, ports=(plain, unseen), private=True),
                    Rule(host=peers.HERE, ports=(seen,), private=True, inspect=True),
                ]
                await session.outside.allow(session.current.name, rules)
            inside = int((await session.current.run(SET_UP)).text)
            forward = await session.outside.forwards.add(inside)
            yield Edge(
                session=session,
                scratch=scratch,
                certificates=certificates,
                plain=plain,
                unseen=unseen,
                seen=seen,
                inside=inside,
                forwarded=forward.host_port,
            )


def _asking(asks: Sequence[Ask], rounds: int, certificates: str) -> list[str]:
    plain = json.dumps([(ask.way, ask.port, ask.method, ask.size) for ask in asks])
    return ["-P", "-c", SOURCE, "ask", str(rounds), plain, certificates]


@asynccontextmanager
async def _server(*arguments: str) -> AsyncGenerator[int]:
    """A server on the host, in a process of its own; its port."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", *arguments, stdin=PIPE, stdout=PIPE
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("pipes were asked for")
    try:
        yield int(await process.stdout.readline())
    finally:
        process.stdin.close()
        await process.wait()


@contextmanager
def _trusting(certificates: Path) -> Generator[None]:
    """Have the runtime trust these as well, as a host would that is told to."""
    before = os.environ.get("SSL_CERT_FILE")
    os.environ["SSL_CERT_FILE"] = str(certificates)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SSL_CERT_FILE"]
        else:
            os.environ["SSL_CERT_FILE"] = before

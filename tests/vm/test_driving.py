"""What whoever drives a session learns of real machines: what executes, what a checkpoint holds."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime import Manifest, Runtime
from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import Moment
from branchpoint_vmruntime.link import KernelLink
from branchpoint_vmruntime.session import Session

pytestmark = pytest.mark.vm

TALKING = """
import threading, time
def talk():
    while True:
        print("still here", flush=True)
        time.sleep(0.01)
threading.Thread(target=talk, daemon=True).start()
"""


@asynccontextmanager
async def opened(home: Home) -> AsyncGenerator[Session]:
    """A session without a notebook."""
    async with Runtime(home) as runtime, runtime.session(Manifest()) as session:
        yield session


def asking_to_run(code: str) -> list[bytes]:
    """A front end's message."""
    header = {"msg_id": "m-1", "msg_type": "execute_request", "session": "s", "version": "5.3"}
    header |= {"username": "", "date": "2026-01-01T00:00:00+00:00"}
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
    return [b"shell", *(json.dumps(part).encode() for part in (header, {}, {}, content))]


async def text(branch: Branch, code: str) -> str:
    """What code gives."""
    result = await branch.run(code)
    assert result.status == "ok", result
    return result.text.strip()


@in_a_loop
async def test_nothing_is_said_while_the_witness_is_heard(home: Home) -> None:
    async with opened(home) as session:
        await session.current.kernel.send(asking_to_run(TALKING))
        heard: list[int] = []

        async def witness(branch: str) -> Moment:
            kernel = session.branch(branch).kernel
            assert isinstance(kernel, KernelLink)
            heard.append(kernel.received)
            await asyncio.sleep(0.5)
            heard.append(kernel.received)
            return Moment(count=1)

        session.witness = witness
        while b"still here" not in (await session.current.kernel.receive())[4]:
            pass
        assert (await session.checkpoint("talking")).moment.count == 1
        before, after = heard
        assert before == after > 0


@in_a_loop
async def test_a_peek_shows_what_was_and_leaves_everything_as_it_is(home: Home) -> None:
    async with opened(home) as session:
        await session.current.run("x = 'then'")
        then = await session.checkpoint("then")
        await session.current.run("x = 'now'")
        async with session.peek(then) as looked_into:
            assert await text(looked_into, "print(x)") == "then"
            named = await looked_into.execute(["sh", "-c", "hostname; echo $BRANCHPOINT_REASON"])
            assert named.stdout.split() == ["peek", "peek"]
            assert await text(session.current, "print(x)") == "now"
            await looked_into.run("x = 'changed'")
        async with session.peek(then) as again:
            assert await text(again, "print(x)") == "then"
        assert [branch.name for branch in session.branches()] == ["main"]

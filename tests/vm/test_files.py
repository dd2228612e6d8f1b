"""Files into a real machine and out of it: whole, or not at all, whatever happens meanwhile."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime import Manifest, Runtime
from branchpoint_vmruntime.errors import TransferError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.outside.transfer import Transferred, Transfers
from branchpoint_vmruntime.owned_session import OwnedSession
from branchpoint_vmruntime.streams import Stream, StreamChannel

pytestmark = pytest.mark.vm

MB = 1 << 20


@asynccontextmanager
async def opened(home: Home) -> AsyncGenerator[OwnedSession]:
    async with Runtime(home) as runtime, runtime.session(Manifest()) as session:
        yield session


def file_of(folder: Path, size_mb: int) -> Path:
    path = folder / "large.bin"
    block = os.urandom(MB)
    with path.open("wb") as file:
        for _ in range(size_mb):
            file.write(block)
    return path


async def in_guest(session: OwnedSession, script: str) -> str:
    done = await session.current.execute(["sh", "-c", script])
    assert done.status == 0, done.stderr
    return done.stdout


class GatedStream:
    """A stream on which so many bytes are sent, and the rest only once its gate is open."""

    def __init__(self, stream: Stream, free_bytes: int) -> None:
        self._stream = stream
        self._free_bytes = free_bytes
        self.at_gate, self.gate = asyncio.Event(), asyncio.Event()
        self.purpose = stream.purpose
        self.read, self.finish, self.close = stream.read, stream.finish, stream.close

    async def write(self, data: bytes) -> None:
        self._free_bytes -= len(data)
        if self._free_bytes < 0:
            self.at_gate.set()
            await self.gate.wait()
        await self._stream.write(data)


class GatedChannel:
    """A machine's streams; of one that is opened `stream` tells."""

    def __init__(self, channel: StreamChannel, free_bytes: int) -> None:
        self._channel = channel
        self._free_bytes = free_bytes
        self.accept = channel.accept
        self.opened = asyncio.Event()
        self.stream: GatedStream | None = None

    async def open(self, *purpose: str, timeout_s: float = 30.0) -> GatedStream:
        stream = await self._channel.open(*purpose, timeout_s=timeout_s)
        self.stream = GatedStream(stream, self._free_bytes)
        self.opened.set()
        return self.stream


async def half_put(
    session: OwnedSession, folder: Path
) -> tuple[asyncio.Task[Transferred], GatedStream]:
    """8 MB on their way into the machine, half of it sent and the rest held back at a gate."""
    channel = GatedChannel(session.current.streams, 4 * MB)
    task = asyncio.create_task(Transfers().put(channel, file_of(folder, 8)))
    await channel.opened.wait()
    assert channel.stream is not None
    await channel.stream.at_gate.wait()
    return task, channel.stream


@in_a_loop
async def test_files_go_in_and_come_back_as_they_were(home: Home, tmp_path: Path) -> None:
    source = tmp_path / "日本 1'.bin"
    source.write_bytes(os.urandom(5 * MB))
    async with opened(home) as session:
        streams = session.current.streams
        into = await Transfers().put(streams, source, "new/folder/")
        assert into.path == f"/root/new/folder/{source.name}"
        digest = await in_guest(session, "md5sum /root/new/folder/*")
        assert digest.split()[0] == into.digest
        out = await Transfers().get(streams, into.path, tmp_path / "back")
        assert out.digest == into.digest
        assert (tmp_path / "back").read_bytes() == source.read_bytes()
        with pytest.raises(TransferError, match="/root/new is a folder"):
            await Transfers().get(streams, "new", tmp_path)
        with pytest.raises(TransferError, match="/root/none: No such file"):
            await Transfers().get(streams, "none", tmp_path)


@in_a_loop
async def test_a_cell_is_answered_while_200_mb_come_in(home: Home, tmp_path: Path) -> None:
    source = file_of(tmp_path, 200)
    async with opened(home) as session:
        put = asyncio.create_task(Transfers().put(session.current.streams, source))
        result = await session.current.run("sum(range(100_000))")
        assert not put.done()
        assert result.text.strip() == "4999950000"
        put.cancel()
        await asyncio.wait((put,))


@in_a_loop
async def test_a_copy_goes_on_after_a_checkpoint_and_is_gone_when_that_is_gone_back_to(
    home: Home, tmp_path: Path
) -> None:
    async with opened(home) as session:
        before = await in_guest(session, "find /root | sort")
        put, stream = await half_put(session, tmp_path)
        middle = await session.checkpoint("middle")
        stream.gate.set()
        done = await put
        assert (await in_guest(session, "md5sum /root/large.bin")).split()[0] == done.digest
        await session.rollback(middle, safety=False)
        # The guest learns on waking that nothing more will come, and tidies up by itself.
        await in_guest(session, "while ls /root/.branchpoint-*.part; do sleep 0.1; done 2>&1")
        assert await in_guest(session, "find /root | sort") == before


@in_a_loop
async def test_a_rollback_in_the_middle_ends_the_copy_in_words(home: Home, tmp_path: Path) -> None:
    async with opened(home) as session:
        before = await session.checkpoint("before")
        put, _ = await half_put(session, tmp_path)
        await session.rollback(before, safety=False)
        with pytest.raises(TransferError, match=r"large\.bin was not brought in: it was cut off"):
            await put
        assert "large.bin" not in await in_guest(session, "find /root")


@in_a_loop
async def test_a_disk_that_fills_up_in_the_middle_is_told_and_nothing_is_left(
    home: Home, tmp_path: Path
) -> None:
    async with opened(home) as session:
        put, stream = await half_put(session, tmp_path)
        await in_guest(
            session,
            "blocks=$(stat -f -c %a /root) size=$(stat -f -c %S /root)\n"
            "fallocate -l $((blocks * size - (8 << 20))) /root/filler\n"
            "! dd if=/dev/zero of=/root/rest bs=64k conv=fsync 2>&1",
        )
        stream.gate.set()
        with pytest.raises(TransferError, match="the machine's disk is full"):
            await put
        assert await in_guest(session, "ls -A /root | grep -c -e large -e part || true") == "0\n"


@in_a_loop
async def test_the_notebooks_folder_comes_in_at_once(home: Home, tmp_path: Path) -> None:
    for name in ("main.py", "data/a.csv", "data/日本.csv", ".env", ".git/config"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    async with opened(home) as session:
        done = await Transfers().unpack(session.current.streams, tmp_path, ["."], "project")
        assert (done.path, done.files) == ("/root/project", 3)
        found = await in_guest(session, "cd /root/project && find . -type f | sort | xargs cat")
        assert found == "data/a.csvdata/日本.csvmain.py"

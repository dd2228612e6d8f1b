"""What does not come into a machine or out of it, and why; nothing of it is left."""

import hashlib
import os
import shutil
import struct
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from tests.support.fake_streams import FakeChannel, FakeEnd
from tests.support.front_end import in_a_loop
from tests.unit.outside.transferring import Guest, file_in, names_below

from branchpoint_vmruntime.errors import TransferError, UsageError
from branchpoint_vmruntime.outside.transfer import Transfers

SIZE, LENGTH = struct.Struct(">Q"), struct.Struct(">I")


@in_a_loop
async def test_what_does_not_fit_into_the_machine_is_not_begun(
    guest: Guest, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = SimpleNamespace(f_bavail=2, f_frsize=1 << 20)
    monkeypatch.setattr(os, "statvfs", Mock(return_value=room))
    with pytest.raises(TransferError, match=r"no room .* 3 MB are to come, 2 MB are free"):
        await Transfers().put(guest.channel, file_in(host), "a/b")
    await guest.settle()
    assert names_below(guest.home) == set()


@in_a_loop
async def test_what_does_not_fit_onto_the_host_is_not_begun(
    guest: Guest, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_in(guest.home)
    free = SimpleNamespace(free=2 << 20)
    monkeypatch.setattr(shutil, "disk_usage", Mock(return_value=free))
    with pytest.raises(TransferError, match=r"no room .* 3 MB are to come, 2 MB are free"):
        await Transfers().get(guest.channel, "data.bin", host)
    assert names_below(host) == set()


@in_a_loop
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none", "there is no file"),
        (".", "is a folder"),
        ("pipe", "not a file"),
        ("data.bin/in", "Not a directory"),
    ],
)
async def test_what_cannot_come_in_is_refused_in_words(
    guest: Guest, host: Path, name: str, words: str
) -> None:
    file_in(host)
    os.mkfifo(host / "pipe")
    with pytest.raises((UsageError, TransferError), match=words):
        await Transfers().put(guest.channel, host / name)
    assert names_below(guest.home) == set()


@in_a_loop
@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("folder", "is a folder"),
        ("file/below", "file is no folder"),
        ("a\0b", "no path"),
        ("\udc80", "no path"),
    ],
)
async def test_where_a_file_cannot_be_put_is_refused_in_words(
    guest: Guest, host: Path, target: str, words: str
) -> None:
    (guest.home / "folder" / "data.bin").mkdir(parents=True)
    file_in(guest.home, name="file")
    with pytest.raises((UsageError, TransferError), match=words):
        await Transfers().put(guest.channel, file_in(host), target)
    assert names_below(guest.home) == {"folder", "folder/data.bin", "file"}


@in_a_loop
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("none", "No such file"),
        ("folder", "is a folder: pack it first, or name a file"),
        ("pipe", "not a file"),
        ("", "is a folder"),
        ("loop", "symbolic links"),
    ],
)
async def test_what_cannot_go_out_is_refused_in_words(
    guest: Guest, host: Path, source: str, words: str
) -> None:
    (guest.home / "folder").mkdir()
    (guest.home / "loop").symlink_to("loop")
    os.mkfifo(guest.home / "pipe")
    with pytest.raises((UsageError, TransferError), match=words):
        await Transfers().get(guest.channel, source, host)
    assert names_below(host) == set()


@in_a_loop
@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("none/there", "there is no folder"),
        ("pipe", "not a file"),
        ("folder", "data.bin is a folder"),
    ],
)
async def test_where_a_file_cannot_go_is_refused_in_words(
    guest: Guest, host: Path, target: str, words: str
) -> None:
    (host / "folder" / "data.bin").mkdir(parents=True)
    os.mkfifo(host / "pipe")
    file_in(guest.home)
    with pytest.raises(UsageError, match=words):
        await Transfers().get(guest.channel, "data.bin", host / target)


@in_a_loop
async def test_a_file_that_a_secret_is_read_from_does_not_come_in_by_any_name(
    guest: Guest, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(host))
    secret = file_in(host, b"token", "secret")
    (host / "other").hardlink_to(secret)
    (host / "link").symlink_to(secret)
    transfers = Transfers(lambda: [Path("~/secret"), host / "gone"])
    for name in ("secret", "other", "link"):
        with pytest.raises(UsageError, match="a secret is read from it"):
            await transfers.put(guest.channel, host / name)
    await transfers.unpack(guest.channel, host, ["."])
    assert names_below(guest.home) == {"link"}
    assert not (guest.home / "link").exists()


def hostile(*parts: bytes) -> FakeChannel:
    """A machine that sends this for a file, whatever it is asked for."""

    async def serve(end: FakeEnd) -> None:
        end.accept()
        for part in parts:
            await end.write(part)
        await end.finish()
        while await end.read():
            pass

    return FakeChannel(serve)


PIECE = LENGTH.pack(4) + b"abcd"


END = LENGTH.pack(0)


DIGEST = hashlib.md5(b"abcd").digest()


@in_a_loop
@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((), "cut off"),
        ((SIZE.pack(4), PIECE), "cut off"),
        ((SIZE.pack(4), PIECE, END, DIGEST[:9]), "cut off"),
        ((SIZE.pack(4), PIECE, END, bytes(16)), "not what was sent"),
        ((SIZE.pack(8), PIECE, END, DIGEST), "changed"),
        ((SIZE.pack(4), PIECE, PIECE, END, DIGEST), "other than it said"),
        ((SIZE.pack(1 << 33), LENGTH.pack(1 << 30), b"abcd"), "other than it said"),
        ((SIZE.pack(1 << 60),), "no room"),
        ((SIZE.pack(4), b"\xff\xff\xff\xff", b"a\x1b[2J\xff" * 99999), "a�.2J"),
    ],
)
async def test_a_machine_that_cheats_brings_nothing_out(
    host: Path, parts: tuple[bytes, ...], words: str
) -> None:
    with pytest.raises(TransferError, match=words) as caught:
        await Transfers().get(hostile(*parts), "data.bin", host)
    assert "\x1b" not in str(caught.value)
    assert names_below(host) == set()


@in_a_loop
@pytest.mark.parametrize(
    "answer",
    [b"", b"done", b"done\0a\0x\x001", b"done\0a\0" + b"9" * 5000 + b"\x001", b"\xff" * 99],
)
async def test_an_answer_that_is_none_fails_a_put(host: Path, answer: bytes) -> None:
    async def serve(end: FakeEnd) -> None:
        await end.read_all()
        await end.write(answer)
        await end.finish()

    with pytest.raises(TransferError, match="was not brought in"):
        await Transfers().put(FakeChannel(serve), file_in(host))


@in_a_loop
async def test_a_machine_that_says_it_is_done_before_it_has_all_is_not_believed(host: Path) -> None:
    with pytest.raises(TransferError, match="before it had all"):
        await Transfers().put(hostile(b"done\0data.bin\x001\x001"), file_in(host))

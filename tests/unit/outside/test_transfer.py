"""Files into a machine and out of it, the guest's code serving: whole, or not at all."""

import asyncio
import hashlib
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from tests.support.fake_streams import FakeChannel, FakeEnd
from tests.support.front_end import in_a_loop
from tests.unit.outside.transferring import Guest, names_below

from branchpoint_guest import placing
from branchpoint_vmruntime.errors import TransferError, UsageError
from branchpoint_vmruntime.outside.pieces import Progress
from branchpoint_vmruntime.outside.transfer import Transfers

MUCH = os.urandom(3 << 20)
SIZE, LENGTH = struct.Struct(">Q"), struct.Struct(">I")


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guest:
    home = tmp_path / "machine"
    home.mkdir()
    monkeypatch.setattr(placing, "HOME", home)
    return Guest(home)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """The notebook's folder."""
    folder = tmp_path / "host"
    folder.mkdir()
    return folder


def file_in(folder: Path, content: bytes = MUCH, name: str = "data.bin") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def telling(act: Callable[[], object]) -> Progress:
    """Progress that does something whenever it is told of."""

    def tell(_so_far: int, _of: int | None) -> None:
        act()

    return tell


@in_a_loop
async def test_a_file_comes_in_whole(guest: Guest, host: Path) -> None:
    done = await Transfers().put(guest.channel, file_in(host))
    assert (guest.home / "data.bin").read_bytes() == MUCH
    assert done.path == str(guest.home / "data.bin")
    assert done.digest == hashlib.md5(MUCH).hexdigest()
    assert done.size_bytes == len(MUCH)


@in_a_loop
async def test_a_file_goes_out_whole(guest: Guest, host: Path) -> None:
    file_in(guest.home)
    done = await Transfers().get(guest.channel, "data.bin", host)
    assert (host / "data.bin").read_bytes() == MUCH
    assert done.path == str(host / "data.bin")
    assert done.digest == hashlib.md5(MUCH).hexdigest()
    assert done.size_bytes == len(MUCH)


@in_a_loop
@pytest.mark.parametrize("name", ["日本 语.csv", "naïve\u202f1.txt", "-rf", "a'b\"c"])
async def test_any_name_goes_there_and_back(guest: Guest, host: Path, name: str) -> None:
    await Transfers().put(guest.channel, file_in(host, b"a", name))
    await Transfers().get(guest.channel, name, host / "back")
    assert names_below(guest.home) == {name}
    assert (host / "back").read_bytes() == b"a"


@in_a_loop
async def test_an_empty_file_goes_there_and_back(guest: Guest, host: Path) -> None:
    await Transfers().put(guest.channel, file_in(host, b""))
    await Transfers().get(guest.channel, "data.bin", host / "back")
    assert (host / "back").read_bytes() == b""


@in_a_loop
async def test_a_program_that_comes_in_can_be_run(guest: Guest, host: Path) -> None:
    source = file_in(host)
    source.chmod(0o750)
    await Transfers().put(guest.channel, source)
    assert (guest.home / "data.bin").stat().st_mode & 0o777 == 0o750


@in_a_loop
@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("there", "there/data.bin"),
        ("new/", "new/data.bin"),
        ("a/b/c", "a/b/c"),
        ("~/d", "d"),
        ("link", "there/linked"),
    ],
)
async def test_a_file_comes_to_where_it_is_put(
    guest: Guest, host: Path, target: str, place: str
) -> None:
    (guest.home / "there").mkdir()
    (guest.home / "link").symlink_to("there/linked")
    done = await Transfers().put(guest.channel, file_in(host, b"a"), target)
    assert (guest.home / place).read_bytes() == b"a"
    assert done.path == str(guest.home / place)


@in_a_loop
async def test_what_has_the_name_is_replaced_both_ways(guest: Guest, host: Path) -> None:
    file_in(guest.home, b"old")
    await Transfers().put(guest.channel, file_in(host, b"new"))
    assert (guest.home / "data.bin").read_bytes() == b"new"
    file_in(guest.home, b"newer")
    await Transfers().get(guest.channel, "data.bin", host)
    assert (host / "data.bin").read_bytes() == b"newer"


@in_a_loop
async def test_a_link_on_the_host_is_replaced_and_not_followed(guest: Guest, host: Path) -> None:
    file_in(host, b"precious", "elsewhere")
    (host / "data.bin").symlink_to("elsewhere")
    file_in(guest.home, b"new")
    await Transfers().get(guest.channel, "data.bin", host)
    assert (host / "elsewhere").read_bytes() == b"precious"
    assert (host / "data.bin").read_bytes() == b"new"


@in_a_loop
@pytest.mark.parametrize("way", ["in", "out"])
async def test_progress_is_told_up_to_the_end(guest: Guest, host: Path, way: str) -> None:
    told: list[tuple[int, int | None]] = []

    def tell(so_far: int, of: int | None) -> None:
        told.append((so_far, of))

    if way == "in":
        await Transfers().put(guest.channel, file_in(host), progress=tell)
    else:
        file_in(guest.home)
        await Transfers().get(guest.channel, "data.bin", host, progress=tell)
    assert told == sorted(told)
    assert len(told) > 1
    assert told[-1] == (len(MUCH), len(MUCH))


@in_a_loop
async def test_a_file_that_says_it_is_empty_but_is_not_goes_out(guest: Guest, host: Path) -> None:
    await Transfers().get(guest.channel, "/proc/self/status", host / "status")
    assert b"Threads:" in (host / "status").read_bytes()


@in_a_loop
async def test_a_put_that_is_cut_off_leaves_nothing(guest: Guest, host: Path) -> None:
    guest.on_heard = guest.channel.cut_off
    with pytest.raises(TransferError, match=r"cut off.*woke anew"):
        await Transfers().put(guest.channel, file_in(host), "a/b/c")
    await guest.settle()
    assert names_below(guest.home) == set()


@in_a_loop
async def test_a_put_that_is_cancelled_leaves_what_was_there(guest: Guest, host: Path) -> None:
    file_in(guest.home, b"old")
    heard = asyncio.Event()
    guest.on_heard = heard.set
    putting = asyncio.create_task(Transfers().put(guest.channel, file_in(host)))
    await heard.wait()
    putting.cancel()
    await asyncio.wait((putting,))
    await guest.settle()
    assert names_below(guest.home) == {"data.bin"}
    assert (guest.home / "data.bin").read_bytes() == b"old"


@in_a_loop
async def test_a_get_that_is_cut_off_leaves_nothing(guest: Guest, host: Path) -> None:
    file_in(guest.home)
    with pytest.raises(TransferError, match="cut off"):
        await Transfers().get(
            guest.channel, "data.bin", host, progress=telling(lambda: guest.channel.cut_off())
        )
    assert names_below(host) == set()


@in_a_loop
async def test_a_get_that_is_cancelled_leaves_what_was_there(guest: Guest, host: Path) -> None:
    file_in(guest.home)
    file_in(host, b"old")
    begun = asyncio.Event()
    getting = asyncio.create_task(
        Transfers().get(guest.channel, "data.bin", host, progress=telling(lambda: begun.set()))
    )
    await begun.wait()
    getting.cancel()
    await asyncio.wait((getting,))
    assert names_below(host) == {"data.bin"}
    assert (host / "data.bin").read_bytes() == b"old"


@in_a_loop
async def test_a_source_that_changes_while_it_is_read_does_not_come_in(
    guest: Guest, host: Path
) -> None:
    source = file_in(host)
    with pytest.raises(TransferError, match="changed while it was read"):
        await Transfers().put(
            guest.channel, source, progress=telling(lambda: os.truncate(source, 1 << 20))
        )
    await guest.settle()
    assert names_below(guest.home) == set()


@in_a_loop
async def test_a_source_that_changes_while_it_is_read_does_not_go_out(
    guest: Guest, host: Path
) -> None:
    source = file_in(guest.home)
    with pytest.raises(TransferError, match="changed while it was read"):
        await Transfers().get(
            guest.channel, "data.bin", host, progress=telling(lambda: os.truncate(source, 1 << 20))
        )
    assert names_below(host) == set()


@in_a_loop
async def test_a_disk_of_the_machine_that_fills_up_is_told_and_nothing_is_left(
    guest: Guest, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OnFullDisk(placing.Aside):
        def __init__(self, target: Path) -> None:
            super().__init__(target)
            self.file.close()
            self.file = Path("/dev/full").open("wb")  # noqa: SIM115

    monkeypatch.setattr(placing, "Aside", OnFullDisk)
    with pytest.raises(TransferError, match="the machine's disk is full"):
        await Transfers().put(guest.channel, file_in(host), "a/b")
    await guest.settle()
    assert names_below(guest.home) == set()


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

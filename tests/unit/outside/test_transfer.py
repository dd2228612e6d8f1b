"""Files into a machine and out of it, the guest's code serving: whole, or not at all."""

import asyncio
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.outside.transferring import MUCH, Guest, file_in, names_below

from branchpoint_guest import placing
from branchpoint_vmruntime.errors import TransferError
from branchpoint_vmruntime.outside.pieces import Progress
from branchpoint_vmruntime.outside.transfer import Transfers


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

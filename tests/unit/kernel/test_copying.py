"""Files in and out: where they go, what is refused, what code in a machine may not reach."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.kernel.paper_session import as_session, on_paper
from tests.unit.outside.transferring import Guest

from branchpoint_guest import placing
from branchpoint_kernel.commands import Copy
from branchpoint_kernel.copy_display import progress_bundle
from branchpoint_kernel.copying import Copying, Step
from branchpoint_kernel.grammar import parse
from branchpoint_kernel.rendering import as_text
from branchpoint_vmruntime.errors import BranchpointError, TransferError, UsageError


class Copies:
    """Magics that copy between a folder for the notebook's and one for the machine's home."""

    def __init__(self, copying: Copying, here: Path, there: Path) -> None:
        self.copying, self.here, self.there = copying, here, there
        self.record: dict[str, Any] = {}
        self.steps: list[Step] = []

    async def __call__(self, line: str, *, inside: str | None = None) -> str:
        name, _, rest = line.removeprefix("%").partition(" ")
        command = parse(name, rest)
        assert isinstance(command, Copy)
        told = await self.copying.copy(command, inside, self.steps.append)
        self.record = dict(told.more)
        return as_text(told.lines)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "HOME", tmp_path / "there")


@asynccontextmanager
async def copies(folder: Path) -> AsyncGenerator[Copies]:
    here, there = folder / "here", folder / "there"
    here.mkdir()
    there.mkdir()
    guest = Guest(there)
    async with on_paper("main") as session:
        session.current.streams = guest.channel
        yield Copies(Copying(as_session(session), here), here, there)
        await guest.settle()
        await guest.channel.end()


@in_a_loop
async def _put(folder: Path, line: str, *expected: str) -> None:
    async with copies(folder) as copy:
        (copy.here / "data").mkdir()
        for name in ("a.csv", "data/b.csv", "data/c.csv"):
            (copy.here / name).write_text(name)
        (copy.there / "into").mkdir()
        await copy(line)
        found = [str(p.relative_to(copy.there)) for p in copy.there.rglob("*") if p.is_file()]
        assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%put a.csv", ["a.csv"]),
        ("%put data/b.csv", ["b.csv"]),
        ("%put data/*.csv", ["b.csv", "c.csv"]),
        ("%put a.csv --to x.csv", ["x.csv"]),
        ("%put a.csv --to into", ["into/a.csv"]),
        ("%put a.csv --to new/", ["new/a.csv"]),
        ("%put a.csv data/b.csv --to new", ["new/a.csv", "new/b.csv"]),
    ],
)
def test_files_are_put_where_one_expects_them(
    tmp_path: Path, line: str, expected: list[str]
) -> None:
    _put(tmp_path, line, *expected)


@in_a_loop
async def _get(folder: Path, line: str, *expected: str) -> None:
    async with copies(folder) as copy:
        (copy.there / "out").mkdir()
        for name in ("m.bin", "out/n.bin"):
            (copy.there / name).write_text(name)
        (copy.here / "results").mkdir()
        await copy(line)
        found = [str(p.relative_to(copy.here)) for p in copy.here.rglob("*") if p.is_file()]
        assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%get m.bin", ["m.bin"]),
        ("%get out/n.bin", ["n.bin"]),
        ("%get m.bin --to x.bin", ["x.bin"]),
        ("%get m.bin --to results", ["results/m.bin"]),
        ("%get m.bin out/n.bin --to results", ["results/m.bin", "results/n.bin"]),
    ],
)
def test_files_are_got_to_where_one_expects_them(
    tmp_path: Path, line: str, expected: list[str]
) -> None:
    _get(tmp_path, line, *expected)


def test_the_last_line_tells_place_size_and_time(tmp_path: Path) -> None:
    @in_a_loop
    async def told() -> None:
        async with copies(tmp_path) as copy:
            (copy.here / "a.bin").write_bytes(bytes(2_000_000))
            line = await copy("%put a.bin")
            assert line.startswith("→ a.bin   main:")
            assert "2.0 MB" in line
            (file,) = copy.record["files"]
            assert (file["bytes"], file["host"]) == (2_000_000, str(copy.here / "a.bin"))
            assert (copy.steps[-1].done_bytes, copy.steps[-1].of_bytes) == (2_000_000, 2_000_000)

    told()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("%put none.csv", "there is no file"),
        ("%put *.none", "no file is named like"),
        ("%put data", "is a folder"),
        ("%put a.csv data/a.csv", "two of these files are called a.csv"),
        ("%get none.bin", "none.bin"),
        ("%get out/", "is a folder"),
    ],
)
def test_a_copy_that_cannot_be_is_refused_in_words(tmp_path: Path, line: str, says: str) -> None:
    @in_a_loop
    async def refused() -> None:
        async with copies(tmp_path) as copy:
            (copy.here / "data").mkdir()
            (copy.here / "a.csv").touch()
            (copy.here / "data" / "a.csv").touch()
            (copy.there / "out").mkdir()
            with pytest.raises((UsageError, TransferError), match=says):
                await copy(line)

    refused()


@pytest.mark.parametrize(
    "line",
    [
        "%put /etc/hostname",
        "%put ../there/secret",
        "%put .env",
        "%get out.bin --to /tmp/out.bin",
        "%get out.bin --to ../out.bin",
        "%get out.bin --to .hidden",
        "%get out.bin --to branchpoint.yaml",
        "%get out.bin --to mine.py",
    ],
)
def test_code_in_a_machine_does_not_reach_beyond_the_notebooks_folder(
    tmp_path: Path, line: str
) -> None:
    @in_a_loop
    async def refused() -> None:
        async with copies(tmp_path) as copy:
            for name in (".env", "mine.py"):
                (copy.here / name).write_text("mine")
            for name in ("secret", "out.bin"):
                (copy.there / name).write_text("the machine's")
            with pytest.raises(BranchpointError):
                await copy(line, inside="main")
            assert {p.name: p.read_text() for p in copy.here.iterdir()} == {
                ".env": "mine",
                "mine.py": "mine",
            }

    refused()


def test_code_in_a_machine_replaces_what_it_has_brought_out(tmp_path: Path) -> None:
    @in_a_loop
    async def replaced() -> None:
        async with copies(tmp_path) as copy:
            for content in ("one", "two"):
                (copy.there / "plot.png").write_text(content)
                await copy("%get plot.png", inside="main")
            assert (copy.here / "plot.png").read_text() == "two"

    replaced()


def test_progress_shows_how_far_of_how_much_and_a_bar() -> None:
    shown = progress_bundle(Step("→", "<a>.bin", 2, 3, 40_000_000, 200_000_000), 4.0)
    assert shown["text/plain"] == "→ <a>.bin   40 MB of 200 MB · 10 MB/s · file 2 of 3"
    assert '<progress aria-label="&lt;a&gt;.bin" value="0.200" max="1">' in shown["text/html"]

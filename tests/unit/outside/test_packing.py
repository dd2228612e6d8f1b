"""What a folder's patterns bring into a machine, and that nothing of it lands elsewhere."""

import io
import os
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_streams import FakeChannel
from tests.support.front_end import in_a_loop
from tests.unit.outside.transferring import Guest, names_below

from branchpoint_guest import placing
from branchpoint_guest.placing import FailedError
from branchpoint_guest.unpacking import unpack_archive
from branchpoint_vmruntime.errors import TransferError, UsageError
from branchpoint_vmruntime.outside.packing import Choice, choose, pack
from branchpoint_vmruntime.outside.transfer import Transfers

KINDS = (
    tarfile.REGTYPE,
    tarfile.DIRTYPE,
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.FIFOTYPE,
    tarfile.CHRTYPE,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A notebook's folder as one looks after some work."""
    made = tmp_path / "notebook"
    files = {
        "main.ipynb": "{}",
        "日本/data.csv": "1,2",
        "data/a.csv": "1",
        "data/b.csv": "22",
        "data/.raw": "",
        "data/deep/c.csv": "333",
        ".env": "TOKEN=1",
        ".git/config": "",
        ".venv/bin/python": "",
        ".ipynb_checkpoints/main.ipynb": "{}",
        "data/__pycache__/m.pyc": "",
        "env/pyvenv.cfg": "",
        "env/lib/m.py": "",
    }
    for name, text in files.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    (made / "empty").mkdir()
    return made


def all_left(choice: Choice) -> str:
    return "\n".join(map(str, choice.left_out))


def unpacked(choice: Choice, root: Path) -> int:
    root.mkdir()
    return unpack_archive(io.BytesIO(b"".join(pack(choice))), root)


def test_a_dot_means_all_of_the_folder_but_what_is_hidden_or_made(folder: Path) -> None:
    choice = choose(folder, ["."])
    assert choice.names == (
        "data",
        "data/a.csv",
        "data/b.csv",
        "data/deep",
        "data/deep/c.csv",
        "empty",
        "main.ipynb",
        "日本",
        "日本/data.csv",
    )
    assert (choice.files, choice.size_bytes) == (5, 11)
    assert all_left(choice) == (
        "7 left out (hidden or made by Python): .env, .git, .ipynb_checkpoints, …"
    )


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("data/*.csv", {"data/a.csv", "data/b.csv"}),
        ("data", {"data", "data/a.csv", "data/b.csv", "data/deep", "data/deep/c.csv"}),
        ("./data/deep/", {"data/deep", "data/deep/c.csv"}),
        ("**/c.csv", {"data/deep/c.csv"}),
        (".env", {".env"}),
        ("data/.*", {"data/.raw"}),
        ("日本/*", {"日本/data.csv"}),
    ],
)
def test_a_pattern_brings_what_it_names(folder: Path, pattern: str, files: set[str]) -> None:
    assert set(choose(folder, [pattern]).names) == files


def test_what_two_patterns_name_comes_once(folder: Path) -> None:
    assert choose(folder, ["data/a.csv", "data/*.csv"]).names == ("data/a.csv", "data/b.csv")


def test_a_pattern_that_matches_nothing_is_told(folder: Path) -> None:
    assert all_left(choose(folder, ["*.parquet"])) == "1 left out (nothing matches): *.parquet"


@pytest.mark.parametrize("pattern", ["", "/etc/*", "../*", "data/../../x", "a\0b"])
def test_a_pattern_that_leads_out_is_refused(folder: Path, pattern: str) -> None:
    with pytest.raises(UsageError, match="names no files of the notebook's folder"):
        choose(folder, [pattern])


def test_links_in_the_folder_come_as_links_and_those_out_of_it_are_told(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "near").symlink_to("data")
    (folder / "data" / "up").symlink_to(folder / "main.ipynb")
    (folder / "out").symlink_to("/etc")
    (folder / "gone").symlink_to("nowhere")
    choice = choose(folder, ["."])
    assert "2 left out (links that lead nowhere, or out of the folder): gone, out" in all_left(
        choice
    )
    unpacked(choice, tmp_path / "machine")
    assert (tmp_path / "machine/near/a.csv").read_text() == "1"
    assert (tmp_path / "machine/data/up").readlink() == Path("../main.ipynb")


def test_a_pattern_through_a_link_out_of_the_folder_brings_nothing(folder: Path) -> None:
    (folder / "out").symlink_to("/etc")
    choice = choose(folder, ["out/passwd", "out/*"])
    assert choice.names == ()


def test_what_is_neither_file_nor_folder_is_told(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert "(neither file, folder nor link): pipe" in all_left(choose(folder, ["."]))


def test_a_folder_is_unpacked_as_it_was_packed(folder: Path, tmp_path: Path) -> None:
    (folder / "data" / "a.csv").chmod(0o700)
    os.utime(folder / "data" / "b.csv", (86400, 86400))
    big = os.urandom(3 << 20)
    (folder / "data" / ("long" * 50)).write_bytes(big)
    choice = choose(folder, ["."])
    assert unpacked(choice, tmp_path / "machine") == 6
    assert names_below(tmp_path / "machine") == set(choice.names)
    assert (tmp_path / "machine/data/a.csv").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "machine/data/b.csv").stat().st_mtime == 86400
    assert (tmp_path / "machine/data" / ("long" * 50)).read_bytes() == big


def test_the_same_folder_makes_the_same_archive(folder: Path) -> None:
    choice = choose(folder, ["."])
    assert b"".join(pack(choice)) == b"".join(pack(choose(folder, ["日本", "."])))


def test_a_large_file_is_packed_in_pieces(folder: Path) -> None:
    with (folder / "large").open("wb") as file:
        file.truncate(40 << 20)
    assert max(map(len, pack(choose(folder, ["large"])))) < 3 << 20


def test_a_file_that_is_gone_meanwhile_does_not_come(folder: Path, tmp_path: Path) -> None:
    choice = choose(folder, ["data/*.csv"])
    (folder / "data" / "a.csv").unlink()
    unpacked(choice, tmp_path / "machine")
    assert names_below(tmp_path / "machine") == {"data", "data/b.csv"}


def test_a_file_that_is_cut_short_meanwhile_fails_it(folder: Path) -> None:
    (folder / "large").write_bytes(bytes(4 << 20))
    pieces = pack(choose(folder, ["large"]))
    next(pieces)
    os.truncate(folder / "large", 0)
    with pytest.raises(TransferError, match="large: it was changed while it was read"):
        list(pieces)


def archive(*members: tarfile.TarInfo) -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    file.seek(0)
    return file


def member(name: str, kind: bytes = tarfile.REGTYPE, leads_to: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, leads_to
    return info


@st.composite
def members(draw: st.DrawFn) -> tarfile.TarInfo:
    parts = st.lists(st.sampled_from(["a", "b", "..", ".", "neighbour"]), min_size=1, max_size=4)
    name, leads_to = (
        draw(st.sampled_from(["", "/", "../"])) + "/".join(draw(parts)) for _ in range(2)
    )
    return member(name, draw(st.sampled_from(KINDS)), leads_to)


@given(entries=st.lists(members(), max_size=6))
def test_no_archive_writes_outside_its_folder(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tarfile.TarInfo]
) -> None:
    around = tmp_path_factory.mktemp("machine")
    (around / "neighbour").mkdir()
    root = around / "root"
    root.mkdir()
    with suppress(FailedError, OSError):
        unpack_archive(archive(*entries), root)
    assert {path for path in names_below(around) if not path.startswith("root/")} == {
        "neighbour",
        "root",
    }
    for path in root.rglob("*"):
        assert Path(os.path.realpath(path)).is_relative_to(root)


@pytest.mark.parametrize("data", [b"no archive at all" * 99, b"\0" * 100, b""])
def test_what_is_no_archive_is_refused_in_words(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(FailedError, match="not an archive"):
        unpack_archive(io.BytesIO(data), tmp_path)


@in_a_loop
async def test_a_folder_comes_in_with_progress_and_a_count(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "HOME", tmp_path)
    told: list[tuple[int, int | None]] = []

    def tell(so_far: int, of: int | None) -> None:
        told.append((so_far, of))

    done = await Transfers().unpack(
        Guest(tmp_path).channel, folder, ["."], "machine", progress=tell
    )
    assert names_below(tmp_path / "machine") == set(choose(folder, ["."]).names)
    assert (done.files, done.size_bytes) == (5, 11)
    assert done.path == str(tmp_path / "machine")
    assert told[-1][0] == told[-1][1]


@in_a_loop
async def test_patterns_that_match_nothing_open_nothing(folder: Path) -> None:
    done = await Transfers().unpack(FakeChannel(), folder, ["*.parquet"])
    assert (done.files, str(done.left_out[0])) == (0, "1 left out (nothing matches): *.parquet")


@in_a_loop
async def test_a_folder_that_leads_out_of_the_target_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "HOME", tmp_path / "machine")
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine" / "data").symlink_to(tmp_path)
    with pytest.raises(TransferError, match=r"'data/a\.csv' leads out of the folder"):
        await Transfers().unpack(Guest(tmp_path).channel, folder, ["data/a.csv"])
    assert not (tmp_path / "a.csv").exists()

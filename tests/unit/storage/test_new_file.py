"""A file that is there whole or not at all, on file systems of either kind."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.architecture.house import ROOT

from branchpoint_vmruntime.storage.new_file import new_file

WRITING = """
import signal, sys
from pathlib import Path
from tests.unit.storage.test_new_file import know_no_nameless_files, new_file
if sys.argv[2] == "hidden":
    know_no_nameless_files()
with new_file(Path(sys.argv[1])) as file:
    file.write(b"half" * 10_000)
    print("writing", flush=True)
    signal.pause()
"""


def know_no_nameless_files(patch: pytest.MonkeyPatch | None = None) -> None:
    """Have it as on a file system where every file has a name."""
    real = os.open

    def without(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return real(path, flags, mode)

    (patch or pytest.MonkeyPatch()).setattr(os, "open", without)


@pytest.fixture(params=["nameless", "hidden"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With a file system that knows files without a name, and with one that does not."""
    if request.param == "hidden":
        know_no_nameless_files(monkeypatch)
    return request.param


def write(path: Path, content: bytes, *, replaces: bool = False) -> None:
    with new_file(path, replaces=replaces) as file:
        file.write(content)


@pytest.mark.usefixtures("kind")
def test_it_is_there_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "whole"
    with new_file(path) as file:
        file.write(b"half")
        assert not path.exists()
        file.write(b" and half")
    assert path.read_bytes() == b"half and half"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("kind")
def test_nothing_is_left_of_one_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write(tmp_path / "half", b"half" * 10_000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("kind")
def test_what_another_has_put_there_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "taken"
    path.write_bytes(b"another's")
    with pytest.raises(FileExistsError):
        write(path, b"mine")
    assert path.read_bytes() == b"another's"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("kind")
def test_one_that_replaces_takes_the_place_of_what_is_there_once_it_is_whole(
    tmp_path: Path,
) -> None:
    path = tmp_path / ("n" * 255)
    path.write_bytes(b"old")
    with new_file(path, mode=0o644, replaces=True) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("kind")
def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "link").symlink_to("precious")
    write(tmp_path / "link", b"new", replaces=True)
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert not (tmp_path / "link").is_symlink()


@pytest.mark.usefixtures("kind")
def test_what_is_to_be_replaced_stays_if_the_new_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    path = tmp_path / "there"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "rename", denied)
    with pytest.raises(OSError, match="Input"):
        write(path, b"new", replaces=True)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_was_left_between_two_names_goes_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "there"
    left = tmp_path / ".there.0a1b2c3d.part"
    left.write_bytes(b"whole, of a process that was killed then")
    write(path, b"new", replaces=True)
    assert list(tmp_path.iterdir()) == [path]


def test_a_process_that_is_killed_leaves_nothing_or_what_goes_the_next_time(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "killed [1]"
    argv = [sys.executable, "-c", WRITING, str(path), kind]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"writing\n"
        # While it is being written, another of the same name leaves it alone.
        write(path, b"first")
        assert len(list(tmp_path.glob(".killed*.part"))) == (kind == "hidden")
        path.unlink()
        child.kill()
    write(path, b"whole")
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"whole"

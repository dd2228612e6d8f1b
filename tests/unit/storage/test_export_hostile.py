"""Files that were cut, bent, or written by someone of ill will: refused in words, nothing left."""

import hashlib
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.storage.moving import (
    FACTS,
    LEAD_BYTES,
    MIB,
    altered,
    empty_home,
    files_in,
    furnished,
    home_with_image,
    overlay,
    take_in,
    written,
)

from branchpoint_vmruntime.errors import (
    BranchpointError,
    DamagedError,
    IncompatibleError,
    StorageError,
)
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.memory.dirty import PAGE
from branchpoint_vmruntime.memory.layer import PageRun, write_layer
from branchpoint_vmruntime.storage.layer_intake import check_overlay


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An honest file, with the image."""
    made = furnished(tmp_path_factory.mktemp("there") / "home")
    return made.export(tmp_path_factory.mktemp("out") / "trained.bp", with_image=True).file


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home that every test leaves as it found it."""
    home = home_with_image(tmp_path_factory.mktemp("here") / "home")
    (home.layers / "base").mkdir()
    return home


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """One that would have to take the image out of the file."""
    home = empty_home(tmp_path_factory.mktemp("bare") / "home")
    (home.layers / "base").mkdir()
    return home


def refused(home: Home, file: Path) -> str:
    before = files_in(home)
    with pytest.raises(BranchpointError) as caught:
        take_in(home, file)
    assert files_in(home) == before
    assert isinstance(caught.value, (DamagedError, IncompatibleError, StorageError))
    return str(caught.value)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_any_flipped_byte_is_found(
    file: Path, here: Home, tmp_path: Path, place: float, flip: int
) -> None:
    data = bytearray(file.read_bytes())
    data[int(place * len(data))] ^= flip
    bent = tmp_path / "bent.bp"
    bent.write_bytes(data)
    assert refused(here, bent)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20
)
@given(part=st.floats(0, 1, exclude_max=True))
def test_a_file_that_is_cut_anywhere_is_refused(
    file: Path, here: Home, tmp_path: Path, part: float
) -> None:
    data = file.read_bytes()
    cut = tmp_path / "cut.bp"
    cut.write_bytes(data[: int(part * len(data))])
    assert refused(here, cut)


def test_more_at_the_end_is_refused(file: Path, here: Home, tmp_path: Path) -> None:
    longer = tmp_path / "longer.bp"
    longer.write_bytes(file.read_bytes() + b"and more")
    assert refused(here, longer)


def test_a_second_frame_behind_the_first_is_refused(file: Path, here: Home, tmp_path: Path) -> None:
    longer = tmp_path / "longer.bp"
    whole = file.read_bytes()[:-32] + zstandard.ZstdCompressor().compress(b"and more")
    longer.write_bytes(whole + hashlib.sha256(whole).digest())
    assert "more follows" in refused(here, longer)


def test_content_after_the_last_file_is_refused(file: Path, here: Home, tmp_path: Path) -> None:
    longer = altered(file, tmp_path / "longer.bp", body=lambda body: body + b"\0" * 12)
    assert "more follows" in refused(here, longer)


def test_another_version_is_named(here: Home, tmp_path: Path) -> None:
    later = written(tmp_path / "later.bp", b"{}", b"", magic=b"BPPACK99")
    with pytest.raises(IncompatibleError, match=r"version '99'.*reads version '01'"):
        take_in(here, later)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 a zip", b"BPPACK01", b"\0" * 1000])
def test_what_is_no_such_file_is_refused(here: Home, tmp_path: Path, data: bytes) -> None:
    other = tmp_path / "other"
    other.write_bytes(data)
    told = refused(here, other)
    assert "branchpoint export" in told
    assert told.startswith(f"{str(other)!r}: ")


def test_a_header_that_claims_gigabytes_is_not_read(here: Home, tmp_path: Path) -> None:
    huge = tmp_path / "huge.bp"
    huge.write_bytes(b"BPPACK01" + struct.pack("<I", 0xFFFFFFFF) + bytes(100))
    assert "header is said to take" in refused(here, huge)


@pytest.mark.parametrize(
    "header",
    [b"", b"[]", b"3", b"{", b"\xff\xfe", b"[" * 100_000, b'{"session": {}}', b'"' + b"9" * 9999],
)
def test_a_header_that_is_none_is_refused(here: Home, tmp_path: Path, header: bytes) -> None:
    assert refused(here, written(tmp_path / "bad.bp", header, b""))


def at(header: Any, *path: str | int) -> Any:
    for step in path:
        header = header[step]
    return header


def setting(value: object, *path: str | int) -> Callable[[Any], None]:
    def change(header: Any) -> None:
        at(header, *path[:-1])[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "name",
    [
        "../../../escaped",
        "/etc/passwd",
        "a/../b",
        ".hidden",
        "",
        "a//b",
        "disk-000.qcow2/..",
        "digests.json",
        "disk-\u0660\u0660\u0660.qcow2",
        "memory\0",
        "x" * 300,
    ],
)
def test_a_layer_holds_files_of_its_own_names_alone(
    file: Path, here: Home, tmp_path: Path, name: str
) -> None:
    bent = altered(
        file, tmp_path / "bent.bp", change=setting(name, "layers", 1, "files", 1, "name")
    )
    assert refused(here, bent)


@pytest.mark.parametrize(
    "name", ["../escaped", "/tmp/escaped", "kernel/../../escaped", "kernel//x", ".x", "kernel/-x"]
)
def test_no_file_of_an_image_leaves_its_folder(
    file: Path, bare: Home, tmp_path: Path, name: str
) -> None:
    bent = altered(file, tmp_path / "bent.bp", change=setting(name, "image", "files", 0, "name"))
    assert refused(bare, bent)
    assert not list(tmp_path.rglob("escaped"))


def test_a_file_below_a_file_is_refused(file: Path, bare: Home, tmp_path: Path) -> None:
    bent = altered(
        file, tmp_path / "bent.bp", change=setting("vmlinuz/x", "image", "files", 0, "name")
    )
    assert "below a file" in refused(bare, bent)


@pytest.mark.parametrize("size", [-1, 1 << 62, 10**4000, True, 1.5, "12", None])
def test_absurd_sizes_are_refused(file: Path, here: Home, tmp_path: Path, size: object) -> None:
    for what in ("size", "data"):
        bent = altered(
            file, tmp_path / "bent.bp", change=setting(size, "layers", 1, "files", 0, what)
        )
        assert refused(here, bent)


def test_a_size_that_does_not_fit_on_the_disk_is_told_before_anything_is_read(
    file: Path, here: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(header: Any) -> None:
        for layer in header["layers"][1:]:
            for each in layer["files"]:
                if each["name"].startswith("disk"):
                    each["size"] = each["data"] = 64 << 30

    def free(_folder: Path) -> int:
        return 100 << 30

    monkeypatch.setattr("branchpoint_vmruntime.storage.importing.free_bytes", free)
    bent = altered(file, tmp_path / "bent.bp", change=change)
    assert "MB free" in refused(here, bent)


def test_a_file_that_unpacks_to_more_than_it_said_is_cut_off(
    file: Path, here: Home, tmp_path: Path
) -> None:
    # A hundred megabytes of the same byte packs into some kilobytes.
    bomb = struct.pack("<QI", 0, 1 << 20) + b"\x01" * (1 << 20)
    bent = altered(file, tmp_path / "bomb.bp", body=lambda _: bomb * 100)
    assert bent.stat().st_size < 1 << 20
    assert "holds more than it is said to" in refused(here, bent)


def test_a_frame_that_asks_for_a_huge_window_is_refused(
    file: Path, here: Home, tmp_path: Path
) -> None:
    data = file.read_bytes()
    (length,) = struct.unpack("<I", data[8:LEAD_BYTES])
    lead = data[: LEAD_BYTES + length + 32]
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    frame = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    whole = lead + frame.compress(os.urandom(1000)) + frame.flush()
    bent = tmp_path / "window.bp"
    bent.write_bytes(whole + hashlib.sha256(whole).digest())
    assert "cannot be unpacked" in refused(here, bent)


@pytest.mark.parametrize(
    ("offset", "length"),
    [(MIB, 16), (1 << 63, 16), (0, 0), (0, 2 << 20), (MIB - 8, 16)],
)
def test_a_piece_outside_its_file_is_refused(
    file: Path, here: Home, tmp_path: Path, offset: int, length: int
) -> None:
    piece = struct.pack("<QI", offset, length) + b"\x01" * length
    bent = altered(file, tmp_path / "bent.bp", body=lambda body: piece + body)
    assert refused(here, bent)


MOMENT = '{"done": [{"id": 1, "count": 1, "source": ""}]}'
BENT: dict[str, Callable[[Any], object]] = {
    "a parent that is not the one before": setting(
        "ba5e00000001", "layers", 1, "checkpoint", "parent"
    ),
    "a checkpoint of another session": setting(
        "0123456789ab", "layers", 2, "checkpoint", "session"
    ),
    "a base above a base": setting("base", "layers", 2, "checkpoint", "kind"),
    "no base below": setting("user", "layers", 0, "checkpoint", "kind"),
    "a path for an id": setting("../../x", "layers", 0, "checkpoint", "id"),
    "a path for a session": setting("../x", "session", "id"),
    "a label with an escape": setting("a\x1b[31mb", "layers", 1, "checkpoint", "label"),
    "a branch like an option": setting("--all", "branch"),
    "a branch of a reserved name": setting("all", "branch"),
    "a number for a note": setting(7, "layers", 1, "checkpoint", "note"),
    "words for a size": setting('{"dirty_bytes": "many"}', "layers", 1, "checkpoint", "cost"),
    "a cell that is none": setting(MOMENT, "layers", 1, "checkpoint", "moment"),
    "words for a time": setting("yesterday", "layers", 1, "checkpoint", "created_at"),
    "two images": setting("0" * 64, "image", "digest"),
    "no memory": setting(0, "facts", "memory_mib"),
    "words for a number": setting("1", "facts", "vcpus"),
    "not a number": setting(float("nan"), "operations", 0, "total_ms"),
    "a path for a pin": setting(["../x"], "pins"),
    "a layer that is missing": lambda header: at(header, "layers").pop(1),
    "no layer": lambda header: at(header, "layers").clear(),
    "a layer twice": lambda header: at(header, "layers").append(at(header, "layers", 2)),
    "a file that is missing": lambda header: at(header, "layers", 1, "files").pop(0),
    "a file twice": lambda header: at(header, "layers", 1, "files").append(
        at(header, "layers", 1, "files", 0)
    ),
    "a column that is missing": lambda header: at(header, "layers", 1, "checkpoint").pop("label"),
    "a fact too many": lambda header: at(header, "facts").update(extra=1),
}


@pytest.mark.parametrize("what", BENT)
def test_records_that_no_export_writes_are_refused(
    file: Path, here: Home, tmp_path: Path, what: str
) -> None:
    assert "export" in refused(here, altered(file, tmp_path / "bent.bp", change=BENT[what]))


def exchanged(file: Path, target: Path, name: str, old: bytes, new: bytes) -> Path:
    """A file in which one file of a layer holds other bytes, with the digest of those."""

    def change(header: Any) -> None:
        for layer in header["layers"]:
            for each in layer["files"]:
                if each["sha256"] == hashlib.sha256(old).hexdigest() and each["name"] == name:
                    each |= {
                        "sha256": hashlib.sha256(new).hexdigest(),
                        "size": len(new),
                        "data": max(len(new), each["data"]),
                    }

    def body(content: bytes) -> bytes:
        framed = struct.pack("<QI", 0, len(old)) + old + struct.pack("<QI", len(old), 0)
        assert framed in content
        instead = struct.pack("<QI", 0, len(new)) + new + struct.pack("<QI", len(new), 0)
        return content.replace(framed, instead)

    return altered(file, target, change=change, body=body)


@pytest.mark.parametrize(
    ("disk", "why"),
    [
        (overlay(backing=512), "names a file to stand on"),
        (overlay(features=0b100), "does not need"),
        (overlay(features=0b10), "does not need"),
        (overlay(snapshots=1), "does not need"),
        (b"x" * 1024, "is not a disk"),
        (b"", "is not a disk"),
    ],
)
def test_a_disk_that_would_have_another_file_opened_is_refused(
    file: Path, here: Home, tmp_path: Path, disk: bytes, why: str
) -> None:
    if disk:
        bent = exchanged(file, tmp_path / "bent.bp", "disk-000.qcow2", overlay(), disk)
        assert why in refused(here, bent)
    place = tmp_path / "disk-000.qcow2"
    place.write_bytes(disk)
    with pytest.raises(DamagedError, match=why):
        check_overlay(place)


def test_pages_beyond_the_memory_are_refused(file: Path, here: Home, tmp_path: Path) -> None:
    honest, bent = tmp_path / "honest", tmp_path / "bent"
    rest = (PageRun(5, 1, zero=True), memoryview(b""))
    write_layer(honest, MIB, [(PageRun(7, 2, zero=False), memoryview(b"\x03" * 2 * PAGE)), rest])
    write_layer(
        bent, MIB, [(PageRun(1 << 40, 2, zero=False), memoryview(b"\x03" * 2 * PAGE)), rest]
    )
    evil = exchanged(file, tmp_path / "evil.bp", "memory", honest.read_bytes(), bent.read_bytes())
    assert "beyond its memory" in refused(here, evil)


def test_a_layer_of_another_machine_than_the_file_is_refused(
    file: Path, here: Home, tmp_path: Path
) -> None:
    evil = altered(file, tmp_path / "evil.bp", change=setting("max2", "facts", "cpu"))
    assert "cpu was max2" in refused(here, evil)


def test_an_image_that_is_not_what_its_manifest_says_is_refused(
    file: Path, bare: Home, tmp_path: Path
) -> None:
    said = json.loads(json.dumps(FACTS.image))
    evil = altered(
        file, tmp_path / "evil.bp", change=setting("0" * 64, "image", "sha256", "vmlinuz")
    )
    assert said[:12] in refused(bare, evil)

"""What proves a layer whole: whatever byte of it changes, it is found, and the file is named."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.storage.layers import made_layer

from branchpoint_vmruntime.errors import DamagedError
from branchpoint_vmruntime.storage.digests import (
    DIGESTS,
    FileDigest,
    check,
    digest_of,
    read_digests,
    verifiable,
    write_digests,
)
from branchpoint_vmruntime.store import DEVICES, FACTS, MEMORY, NONCE, Layer


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Layer:
    """One that each test leaves as it found it."""
    return made_layer(tmp_path_factory.mktemp("layers"), "aaaa1111", disk=b"QFI\xfb disk")


def test_a_layer_as_it_was_written_is_whole(layer: Layer) -> None:
    assert verifiable(layer)
    assert check(layer) == []


def test_every_file_is_noted_with_its_size(layer: Layer) -> None:
    noted = read_digests(layer)
    assert set(noted) == {MEMORY, DEVICES, FACTS, NONCE, "disk-000.qcow2"}
    assert noted[MEMORY].bytes == len(b"memory")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_any_single_flipped_bit_is_found_and_its_file_named(
    layer: Layer, data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(sorted(layer.folder.iterdir())))
    before = path.read_bytes()
    place = data.draw(st.integers(0, len(before) - 1))
    flip = data.draw(st.integers(1, 255))
    try:
        path.write_bytes(before[:place] + bytes([before[place] ^ flip]) + before[place + 1 :])
        assert [damage.path for damage in check(layer)] == [path]
    finally:
        path.write_bytes(before)


@pytest.mark.parametrize("name", [MEMORY, DEVICES, FACTS, NONCE, "disk-000.qcow2"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    made = made_layer(tmp_path, "aaaa1111", disk=b"QFI\xfb disk")
    (made.folder / name).unlink()
    (damage,) = check(made)
    assert damage.path == made.folder / name
    assert "missing" in damage.what


def test_a_file_cut_short_is_told_by_its_size(tmp_path: Path) -> None:
    made = made_layer(tmp_path, "aaaa1111")
    made.memory.write_bytes(b"mem")
    (damage,) = check(made)
    assert damage.what == "it holds 3 bytes, and held 6"


def test_a_file_that_was_not_there_is_named(tmp_path: Path) -> None:
    made = made_layer(tmp_path, "aaaa1111")
    (made.folder / "disk-001.qcow2").write_bytes(b"a stranger's")
    (damage,) = check(made)
    assert damage.path.name == "disk-001.qcow2"


def test_a_missing_layer_is_named(tmp_path: Path) -> None:
    (damage,) = check(Layer(tmp_path / "gone"))
    assert damage.path == tmp_path / "gone"


def test_a_layer_from_before_there_were_notes_is_not_verifiable_and_not_damaged(
    tmp_path: Path,
) -> None:
    made = made_layer(tmp_path, "aaaa1111", noted=False)
    assert not verifiable(made)
    assert read_digests(made) == {}
    assert check(made) == []


def test_what_is_missing_of_a_layer_without_a_note_is_found_all_the_same(tmp_path: Path) -> None:
    made = made_layer(tmp_path, "aaaa1111", noted=False)
    made.devices.unlink()
    assert [damage.path for damage in check(made)] == [made.devices]


@pytest.mark.parametrize(
    "said", [b"", b"[]", b"{}", b'{"files": 3}', b"\xff\xfe", b'{"files": {}}']
)
def test_a_note_that_is_none_is_named_as_damaged(tmp_path: Path, said: bytes) -> None:
    made = made_layer(tmp_path, "aaaa1111")
    (made.folder / DIGESTS).write_bytes(said)
    with pytest.raises(DamagedError, match=DIGESTS):
        read_digests(made)
    assert [damage.path.name for damage in check(made)] == [DIGESTS]


def test_a_digest_exchanged_by_hand_is_found(tmp_path: Path) -> None:
    made = made_layer(tmp_path, "aaaa1111")
    note = made.folder / DIGESTS
    raw = json.loads(note.read_bytes())
    raw["files"][MEMORY]["bytes"] = 7
    note.write_text(json.dumps(raw, indent=1, sort_keys=True))
    assert [damage.path for damage in check(made)] == [note]


def test_a_note_written_anew_replaces_the_earlier_one(tmp_path: Path) -> None:
    made = made_layer(tmp_path, "aaaa1111")
    made.memory.write_bytes(b"other")
    write_digests(made)
    assert check(made) == []


def test_what_is_known_already_is_noted_and_not_read_again(tmp_path: Path) -> None:
    made = made_layer(tmp_path, "aaaa1111")
    elsewhere = FileDigest(sha256="0" * 64, bytes=7)
    write_digests(made, {MEMORY: elsewhere})
    noted = read_digests(made)
    assert noted[MEMORY] == elsewhere
    assert noted[DEVICES] == digest_of([made.devices.read_bytes()])

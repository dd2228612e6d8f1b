"""Checkpoints on disk: whole or not there, and never loaded where they do not fit."""

import json
import os
import shutil
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_vmruntime import store as store_module
from branchpoint_vmruntime.errors import DamagedError, IncompatibleError
from branchpoint_vmruntime.lineage import CheckpointId
from branchpoint_vmruntime.store import FACTS, NONCE, Layer, LayerStore, MachineFacts

ONE, TWO = CheckpointId("aaaa1111"), CheckpointId("bbbb2222")
EMULATED = MachineFacts(
    qemu="QEMU 10.0.2 (0a1b2c)",
    accelerator="tcg",
    cpu="max",
    memory_mib=1024,
    vcpus=1,
    image="d1g357",
    protocol=2,
    tsc_khz=2_000_000,
)
ON_KVM = replace(EMULATED, accelerator="kvm", cpu="host")


@pytest.fixture
def store(tmp_path: Path) -> LayerStore:
    return LayerStore(tmp_path / "layers")


def names(store: LayerStore) -> set[str]:
    """What there is in the store's folder."""
    return {path.name for path in store.layer(ONE).folder.parent.iterdir()}


def filled(store: LayerStore, checkpoint: CheckpointId) -> Layer:
    """A staged checkpoint with all its files."""
    staged = store.stage(checkpoint)
    staged.memory.write_bytes(b"memory")
    staged.devices.write_bytes(b"devices")
    staged.write_facts(EMULATED, "c0ffee")
    return staged


def test_a_published_checkpoint_has_every_file_as_it_was_staged(store: LayerStore) -> None:
    layer = store.publish(filled(store, ONE), ONE)
    assert layer.folder == store.layer(ONE).folder
    assert layer.memory.read_bytes() == b"memory"
    assert layer.devices.read_bytes() == b"devices"
    assert layer.facts() == EMULATED
    assert layer.nonce == "c0ffee"
    assert names(store) == {ONE}


def test_what_is_staged_is_not_there_yet(store: LayerStore) -> None:
    filled(store, ONE)
    assert not store.layer(ONE).folder.exists()


def test_the_folders_are_closed_to_other_users(store: LayerStore) -> None:
    layer = store.publish(filled(store, ONE), ONE)
    for folder in (layer.folder, layer.folder.parent):
        assert folder.stat().st_mode & 0o077 == 0


def test_a_discarded_checkpoint_leaves_nothing(store: LayerStore) -> None:
    store.discard(filled(store, ONE))
    store.discard(store.publish(filled(store, TWO), TWO))
    assert names(store) == set()


def test_discarding_what_is_not_there_is_no_error(store: LayerStore) -> None:
    store.discard(store.layer(ONE))


class Syncs:
    """Stands in for `sync_file`: notes each name, and has no room left at the one it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, failing: int = -1) -> None:
        self.names: list[str] = []
        self._failing = failing
        monkeypatch.setattr(store_module, "sync_file", self._sync)

    def _sync(self, path: Path) -> None:
        if len(self.names) == self._failing:
            raise OSError(28, "No space left on device", str(path))
        self.names.append(path.name)


# Four files, the staged folder, and the store's own.
@pytest.mark.parametrize("step", range(6))
def test_a_publishing_that_fails_at_any_step_publishes_nothing(
    store: LayerStore, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    staged = filled(store, ONE)
    Syncs(monkeypatch, failing=step)
    with pytest.raises(OSError, match="No space left"):
        store.publish(staged, ONE)
    assert not store.layer(ONE).folder.exists()
    store.discard(staged)
    assert names(store) == set()


def test_every_file_and_both_folders_are_synced_and_the_name_last(
    store: LayerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = filled(store, ONE)
    syncs = Syncs(monkeypatch)
    store.publish(staged, ONE)
    assert set(syncs.names[:-2]) == {"memory", "devices", FACTS, NONCE}
    assert syncs.names[-2:] == [f"{ONE}.part", "layers"]


def test_a_checkpoint_is_not_published_over_another(store: LayerStore) -> None:
    layer = store.publish(filled(store, ONE), ONE)
    with pytest.raises(OSError, match="not empty"):
        store.publish(filled(store, ONE), ONE)
    assert layer.facts() == EMULATED


def test_sweeping_removes_what_no_record_knows_and_nothing_else(store: LayerStore) -> None:
    store.publish(filled(store, ONE), ONE)
    store.publish(filled(store, TWO), TWO)
    filled(store, CheckpointId("cccc3333"))
    (store.layer(ONE).folder.parent / "stray").write_text("a file")
    swept = store.sweep({ONE})
    assert {path.name for path in swept} == {TWO, "cccc3333.part", "stray"}
    assert names(store) == {ONE}


def test_sweeping_follows_no_link_out_of_the_store(store: LayerStore, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("kept")
    (store.layer(ONE).folder.parent / "link").symlink_to(tmp_path / "precious")
    store.sweep(set())
    assert (tmp_path / "precious" / "file").read_text() == "kept"
    assert names(store) == set()


def test_disk_overlays_are_kept_in_the_order_they_were_sealed(
    store: LayerStore, tmp_path: Path
) -> None:
    staged = store.stage(ONE)
    for number in range(12):
        overlay = tmp_path / f"overlay-{number}"
        overlay.write_text(str(number))
        staged.link_disk(overlay)
    assert [path.read_text() for path in staged.disks] == [str(number) for number in range(12)]


def test_an_overlay_taken_in_outlives_its_machine(store: LayerStore, tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()
    overlay = tmp_path / "machine" / "overlay.qcow2"
    overlay.write_text("written")
    staged = filled(store, ONE)
    staged.link_disk(overlay)
    layer = store.publish(staged, ONE)
    shutil.rmtree(tmp_path / "machine")
    assert [path.read_text() for path in layer.disks] == ["written"]


FACTS_OF_ANY_KIND = st.builds(
    MachineFacts,
    qemu=st.text(),
    accelerator=st.sampled_from(["kvm", "tcg"]),
    cpu=st.text(),
    memory_mib=st.integers(256, 65536),
    vcpus=st.integers(1, 16),
    image=st.text(),
    protocol=st.integers(1, 99),
    tsc_khz=st.integers(1, 10_000_000),
)


@given(FACTS_OF_ANY_KIND, st.text(alphabet="0123456789abcdef"))
def test_facts_and_nonce_come_back_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, facts: MachineFacts, nonce: str
) -> None:
    layer = Layer(tmp_path_factory.mktemp("layer"))
    layer.write_facts(facts, nonce)
    assert (layer.facts(), layer.nonce) == (facts, nonce)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"qemu": "x"}', '{"more": 1}', "\udcff"])
def test_facts_that_cannot_be_read_are_damaged(store: LayerStore, text: str) -> None:
    staged = filled(store, ONE)
    (staged.folder / FACTS).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DamagedError, match="cannot be read"):
        staged.facts()


@pytest.mark.parametrize("name", [FACTS, NONCE])
def test_a_file_that_is_missing_is_damage(store: LayerStore, name: str) -> None:
    staged = filled(store, ONE)
    (staged.folder / name).unlink()
    with pytest.raises(DamagedError, match=str(ONE)):
        _ = (staged.facts(), staged.nonce)


DIFFERENCES = {
    "qemu": replace(EMULATED, qemu="QEMU 7.2.0"),
    "accelerator": replace(EMULATED, accelerator="kvm"),
    "cpu": replace(EMULATED, cpu="host"),
    "memory_mib": replace(EMULATED, memory_mib=2048),
    "vcpus": replace(EMULATED, vcpus=4),
    "image": replace(EMULATED, image="other"),
    "protocol": replace(EMULATED, protocol=1),
}


def test_every_fact_but_the_tsc_rate_has_its_difference_tested() -> None:
    assert [*DIFFERENCES, "tsc_khz"] == [field.name for field in fields(MachineFacts)]


@pytest.mark.parametrize("name", DIFFERENCES)
def test_each_difference_is_named_with_both_values(name: str) -> None:
    saved = DIFFERENCES[name]
    with pytest.raises(IncompatibleError) as caught:
        EMULATED.require_same(saved)
    difference = f"{name} was {getattr(saved, name)} and is {getattr(EMULATED, name)}"
    assert str(caught.value).endswith(f"different machine: {difference}")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("saved", "hint"),
    [
        (replace(EMULATED, image="other"), "have `image` in branchpoint.yaml as when it was saved"),
        (replace(EMULATED, vcpus=4, memory_mib=99, image="other"), "have `machine` and `image` in"),
        (replace(EMULATED, qemu="other", image="other"), "restore it where it was made"),
    ],
)
def test_what_the_manifest_decides_can_be_had_back_by_the_manifest(
    saved: MachineFacts, hint: str
) -> None:
    with pytest.raises(IncompatibleError) as caught:
        EMULATED.require_same(saved)
    assert caught.value.hint.startswith(hint)


def test_several_differences_are_all_named() -> None:
    saved = replace(EMULATED, vcpus=4, memory_mib=2048, image="other")
    with pytest.raises(IncompatibleError, match=r"memory_mib .*; vcpus .*; image "):
        EMULATED.require_same(saved)


@pytest.mark.parametrize("khz", [2_000_000, 2_001_999, 1_998_001])
def test_a_tsc_rate_that_differs_by_less_than_a_thousandth_is_the_same(khz: int) -> None:
    EMULATED.require_same(replace(EMULATED, tsc_khz=khz))


@pytest.mark.parametrize("khz", [2_002_100, 1_997_900, 0])
def test_another_tsc_rate_is_refused_when_emulated(khz: int) -> None:
    with pytest.raises(IncompatibleError, match=f"tsc_khz was {khz} and is 2000000"):
        EMULATED.require_same(replace(EMULATED, tsc_khz=khz))


def test_on_kvm_the_tsc_rate_does_not_matter() -> None:
    ON_KVM.require_same(replace(ON_KVM, tsc_khz=3_000_000))


@given(FACTS_OF_ANY_KIND, st.integers(1, 10_000_000))
def test_the_key_tells_all_but_the_tsc_rate(facts: MachineFacts, khz: int) -> None:
    assert replace(facts, tsc_khz=khz).key == facts.key
    assert replace(facts, memory_mib=facts.memory_mib + 1).key != facts.key


def test_the_facts_on_disk_are_for_people_to_read_too(store: LayerStore) -> None:
    staged = filled(store, ONE)
    assert json.loads((staged.folder / FACTS).read_text()) == asdict(EMULATED)
    assert os.linesep in (staged.folder / FACTS).read_text()

"""A checkpoint moved to another home: it is all there, and nothing that is not its own."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.storage.moving import (
    BASE,
    FACTS,
    FIRST,
    SECOND,
    SESSION,
    Furnished,
    altered,
    empty_home,
    files_in,
    furnished,
    home_with_image,
    same_facts,
    take_in,
)

from branchpoint_vmruntime.errors import (
    DamagedError,
    HostError,
    IncompatibleError,
    NameTakenError,
    StorageError,
    UsageError,
)
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.guest_image import ROOT, GuestImage
from branchpoint_vmruntime.image.progress import SilentProgress
from branchpoint_vmruntime.leaks import Leak, sweep
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.lineage import BranchState, CheckpointKind
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.memory.dirty import PAGE
from branchpoint_vmruntime.memory.sparse import bytes_on_disk
from branchpoint_vmruntime.storage import exporting, importing, layer_intake
from branchpoint_vmruntime.storage.digests import DIGESTS, check, verifiable
from branchpoint_vmruntime.storage.exporting import export_checkpoint, newest_checkpoint
from branchpoint_vmruntime.storage.foundations import Foundations
from branchpoint_vmruntime.store import Layer, MachineFacts


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Furnished:
    """Where it was made; no test changes it."""
    return furnished(tmp_path_factory.mktemp("there") / "home")


@pytest.fixture(scope="module")
def file(there: Furnished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return there.export(tmp_path_factory.mktemp("out") / "trained.bp").file


@pytest.fixture
def here(tmp_path: Path) -> Home:
    return home_with_image(tmp_path / "home")


def test_every_file_of_the_chain_is_in_the_other_home(
    there: Furnished, file: Path, here: Home
) -> None:
    made = take_in(here, file)
    for name in (BASE, FIRST, SECOND):
        folder = here.layers / ("base" if name == BASE else made.session.id) / name
        for path in there.layer(name).folder.iterdir():
            assert (folder / path.name).read_bytes() == path.read_bytes(), path


def test_what_was_imported_verifies(file: Path, here: Home) -> None:
    made = take_in(here, file)
    layer = Layer(here.layers / made.session.id / SECOND)
    assert verifiable(layer)
    assert check(layer) == []


def test_memory_that_was_sparse_is_sparse_again(there: Furnished, file: Path, here: Home) -> None:
    take_in(here, file)
    memory = Layer(here.layers / "base" / BASE).memory
    assert memory.stat().st_size == there.layer(BASE).memory.stat().st_size
    assert bytes_on_disk(memory) <= 64 << 10


def test_zeros_that_were_written_out_become_holes(tmp_path: Path) -> None:
    made = furnished(tmp_path / "there", noted=False)
    memory = made.layer(BASE).memory
    memory.write_bytes(memory.read_bytes())
    assert bytes_on_disk(memory) == 1 << 20
    here = home_with_image(tmp_path / "here")
    take_in(here, made.export(tmp_path / "file.bp").file)
    assert bytes_on_disk(Layer(here.layers / "base" / BASE).memory) <= 64 << 10


def test_the_records_come_along(there: Furnished, file: Path, here: Home) -> None:
    made = take_in(here, file)
    with Journal.read(here.database) as journal:
        found = journal.checkpoints(made.session.id)
        operations = journal.operations(made.session.id)
        assert journal.pins() == {FIRST}
    assert [(c.id, c.label) for c in found] == [
        (BASE, "base"),
        (FIRST, "loaded"),
        (SECOND, "trained"),
    ]
    assert found[-1].cost == there.checkpoint().cost
    assert found[-1].moment.cell == there.checkpoint().moment.cell
    assert found[-1].created_at == there.checkpoint().created_at
    assert [operation.op for operation in operations] == ["checkpoint", "checkpoint", "import"]
    assert made.session.start == FIRST


def test_the_session_is_closed_and_its_branch_paused_at_the_checkpoint(
    file: Path, here: Home
) -> None:
    made = take_in(here, file)
    with Journal.read(here.database) as journal:
        assert journal.session(made.session.id) == made.session
        (branch,) = journal.branches(made.session.id)
    assert (branch.name, branch.head, branch.state) == ("main", SECOND, BranchState.PAUSED)
    assert made.session.current == "main"
    assert made.session.key == "/home/me/a.ipynb"


def test_what_packages_were_baked_into_is_carried_on_with_as_the_first_branch(
    there: Furnished, file: Path, tmp_path: Path, here: Home
) -> None:
    def baked(header: Any) -> None:
        header["layers"][-1]["checkpoint"]["branch"] = "image"

    made = take_in(here, altered(file, tmp_path / "baked.bp", change=baked))
    assert made.checkpoint.branch == "image"
    with Journal.read(here.database) as journal:
        session = journal.session(made.session.id)
    assert session
    again = export_checkpoint(
        here, session, made.checkpoint, tmp_path / "again.bp", progress=SilentProgress()
    )
    assert again.package.branch == "main"


def test_what_was_done_outside_before_belongs_to_the_past(file: Path, here: Home) -> None:
    with Ledger.open(here.ledger) as ledger:
        now = ledger.position()
    assert take_in(here, file).checkpoint.moment.position == now


def test_a_base_from_elsewhere_never_becomes_what_fresh_machines_start_from(
    there: Furnished, file: Path, here: Home
) -> None:
    take_in(here, file)
    with Journal.read(here.database) as journal:
        assert journal.base(there.checkpoint(BASE).key) is None


def test_a_base_from_elsewhere_on_which_nothing_stands_any_more_is_not_kept(
    file: Path, here: Home
) -> None:
    take_in(here, file)
    with Journal.read(here.database) as journal:
        base = journal.checkpoint(BASE)
    assert base is not None
    # The key alone tells the two apart.
    foundations = Foundations(here, qemu=None, guest_sources=[])
    assert foundations.usable([base]) == set()
    assert foundations.usable([replace(base, key=FACTS.key)]) == {BASE}


def test_imported_twice_it_is_two_sessions_that_share_files(file: Path, here: Home) -> None:
    first, second = take_in(here, file), take_in(here, file)
    assert first.session.id != second.session.id
    assert second.session.key == "/home/me/a.ipynb (imported)"
    assert second.checkpoint.id != first.checkpoint.id
    ours = here.layers / first.session.id / first.checkpoint.id
    theirs = here.layers / second.session.id / second.checkpoint.id
    assert ours.joinpath("memory").samefile(theirs / "memory")
    assert not ours.joinpath(DIGESTS).samefile(theirs / DIGESTS)
    assert check(Layer(ours)) == check(Layer(theirs)) == []
    with Journal.read(here.database) as journal:
        labels = [c.label for c in journal.checkpoints(second.session.id)]
        assert len({c.parent for c in journal.checkpoints(second.session.id)}) == 3
    assert labels == ["base", "loaded", "trained"]


def test_imported_where_it_was_made_it_is_a_session_of_its_own(tmp_path: Path) -> None:
    made = furnished(tmp_path / "home")
    again = take_in(made.home, made.export(tmp_path / "file.bp").file)
    assert again.session.id != SESSION
    with Journal.read(made.home.database) as journal:
        assert journal.base(FACTS.key) is not None


def test_a_session_can_be_named(file: Path, here: Home) -> None:
    assert take_in(here, file, name="mine").session.key == "mine"
    with pytest.raises(NameTakenError, match="'mine'"):
        take_in(here, file, name="mine")


@pytest.mark.parametrize("name", ["", "\x1b[31m", "x" * 2000])
def test_a_name_that_cannot_be_one_is_refused(file: Path, here: Home, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name"):
        take_in(here, file, name=name)


def test_layers_without_notes_are_hashed_when_they_are_exported(tmp_path: Path) -> None:
    made = furnished(tmp_path / "there", noted=False)
    here = home_with_image(tmp_path / "here")
    taken = take_in(here, made.export(tmp_path / "file.bp").file)
    assert check(Layer(here.layers / taken.session.id / SECOND)) == []


def test_a_damaged_layer_is_not_exported(tmp_path: Path) -> None:
    made = furnished(tmp_path / "there")
    memory = made.layer(FIRST).memory
    data = bytearray(memory.read_bytes())
    data[-1] ^= 1
    memory.write_bytes(data)
    with pytest.raises(DamagedError, match=r"checkpoint 'loaded'.*memory"):
        made.export(tmp_path / "file.bp")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_checkpoint_that_is_removed_meanwhile_is_exported_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = furnished(tmp_path / "there")
    shutil.copytree(made.home.root, tmp_path / "kept")

    class Removing(SilentProgress):
        def step(self, title: str) -> None:
            shutil.rmtree(made.home.layers / SESSION)

    file = tmp_path / "file.bp"
    session, checkpoint = made.session, made.checkpoint()
    export_checkpoint(made.home, session, checkpoint, file, progress=Removing())
    here = home_with_image(tmp_path / "here")
    taken = take_in(here, file)
    kept = tmp_path / "kept" / "layers" / SESSION / SECOND / "memory"
    assert (here.layers / taken.session.id / SECOND / "memory").read_bytes() == kept.read_bytes()


def test_a_file_that_is_there_is_not_written_over(there: Furnished, tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("precious")
    with pytest.raises(UsageError, match="already a file"):
        there.export(file)
    assert file.read_text() == "precious"


def test_a_base_is_not_exported(there: Furnished, tmp_path: Path) -> None:
    base = there.checkpoint(BASE)
    with pytest.raises(UsageError, match="fresh machine"):
        export_checkpoint(
            there.home, there.session, base, tmp_path / "x", progress=SilentProgress()
        )


def test_a_folder_that_is_not_there_is_said_in_words(there: Furnished, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        there.export(tmp_path / "nowhere" / "file.bp")


def test_a_disk_that_fails_leaves_no_half_file(
    there: Furnished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exporting, "sync_file", full)
    with pytest.raises(StorageError, match="full"):
        there.export(tmp_path / "file.bp")
    assert list(tmp_path.iterdir()) == []


def test_only_its_owner_may_read_what_was_exported(file: Path) -> None:
    assert file.stat().st_mode & 0o777 == 0o600


def test_without_a_name_the_current_branchs_last_checkpoint_is_meant(there: Furnished) -> None:
    with Journal.read(there.home.database) as journal:
        assert newest_checkpoint(journal, there.session).id == SECOND


def test_of_a_session_that_saved_nothing_there_is_nothing_to_export(tmp_path: Path) -> None:
    made = furnished(tmp_path / "there")
    with Journal.open(made.home.database) as journal:
        (branch,) = journal.branches(SESSION)
        journal.put_branch(replace(branch, head=BASE))
        with pytest.raises(UsageError, match="saved nothing"):
            newest_checkpoint(journal, made.session)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("qemu", "QEMU 7.2.0 (other)"),
        ("accelerator", "kvm"),
        ("cpu", "host"),
        ("protocol", 5),
        ("tsc_khz", 3_000_000),
    ],
)
def test_on_another_host_the_field_that_differs_is_named_and_nothing_is_left(
    file: Path, here: Home, field: str, value: object
) -> None:
    before = files_in(here)

    def facts(home: Home, image: GuestImage, saved: MachineFacts) -> MachineFacts:
        return replace(same_facts(home, image, saved), **{field: value})

    with pytest.raises(IncompatibleError) as caught:
        # The TSC counts where machines are emulated.
        take_in(here, file, facts=facts)
    assert f"{field} was {getattr(FACTS, field)} and is {value}" in str(caught.value)
    assert files_in(here) == before


def test_the_same_recipe_of_other_packages_is_another_image(file: Path, tmp_path: Path) -> None:
    here = home_with_image(tmp_path / "home", {ROOT: b"a root with an update"})
    with pytest.raises(IncompatibleError, match=f"{ROOT} differs"):
        take_in(here, file)
    assert not list(here.layers.iterdir())


def test_a_host_without_the_image_says_how_it_can_be_had(file: Path, tmp_path: Path) -> None:
    with pytest.raises(IncompatibleError, match="image abababababab") as caught:
        take_in(empty_home(tmp_path / "home"), file)
    assert "--with-image" in caught.value.hint


def test_a_host_without_the_image_takes_it_out_of_the_file(
    there: Furnished, tmp_path: Path
) -> None:
    file = there.export(tmp_path / "file.bp", with_image=True).file
    here = empty_home(tmp_path / "home")
    assert take_in(here, file).took_image
    ours, theirs = here.images / FACTS.image, there.home.images / FACTS.image
    names = {path.relative_to(theirs) for path in theirs.rglob("*")}
    assert {path.relative_to(ours) for path in ours.rglob("*")} == names
    assert (ours / ROOT).read_bytes() == (theirs / ROOT).read_bytes()
    assert bytes_on_disk(ours / ROOT) <= 3 * (64 << 10)


def test_an_image_that_is_here_already_is_left_alone(
    there: Furnished, here: Home, tmp_path: Path
) -> None:
    file = there.export(tmp_path / "file.bp", with_image=True).file
    before = (here.images / FACTS.image / ROOT).stat()
    assert not take_in(here, file).took_image
    assert (here.images / FACTS.image / ROOT).stat().st_ino == before.st_ino


def test_initramfs_of_this_host_is_not_carried(tmp_path: Path) -> None:
    made = furnished(tmp_path / "there")
    (made.home.images / FACTS.image / "initramfs-00.cpio").write_bytes(b"guest code")
    file = made.export(tmp_path / "file.bp", with_image=True).file
    here = empty_home(tmp_path / "home")
    take_in(here, file)
    assert not list(here.images.rglob("initramfs-*"))


def test_a_checkpoint_that_is_here_and_is_another_is_not_overwritten(
    file: Path, tmp_path: Path
) -> None:
    other = furnished(tmp_path / "home")
    devices = other.layer(SECOND).devices
    devices.write_bytes(b"something else")
    (other.layer(SECOND).folder / DIGESTS).unlink()
    before = files_in(other.home)
    with pytest.raises(IncompatibleError, match=f"already a checkpoint {SECOND}.*devices"):
        take_in(other.home, file)
    assert devices.read_bytes() == b"something else"
    assert files_in(other.home) == before


def test_a_journal_that_cannot_be_written_leaves_nothing(
    file: Path, here: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_in(here)

    def refuse(*_: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(Journal, "add_lineage", refuse)
    with pytest.raises(StorageError):
        take_in(here, file)
    assert files_in(here) - {"layers/base"} == before


def test_a_disk_that_fails_at_any_write_leaves_nothing(
    file: Path, here: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_in(here)
    writes = 0
    real = os.pwrite

    def failing(fd: int, data: memoryview, offset: int) -> int:
        nonlocal writes
        writes += 1
        if writes == 3:
            raise OSError(28, "No space left on device")
        return real(fd, data, offset)

    monkeypatch.setattr(layer_intake.os, "pwrite", failing)
    with pytest.raises(StorageError, match="full"):
        take_in(here, file)
    assert files_in(here) - {"layers/base"} == before


def test_a_disk_without_the_room_is_told_before_anything_is_written(
    file: Path, here: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nearly_full(_folder: Path) -> int:
        return 1000

    monkeypatch.setattr(importing, "free_bytes", nearly_full)
    with pytest.raises(StorageError, match="needs"):
        take_in(here, file)
    assert not list(here.layers.iterdir())


def test_what_a_killed_import_left_is_swept_and_what_is_on_record_stays(
    file: Path, here: Home
) -> None:
    made = take_in(here, file)
    kept = files_in(here)
    left = [here.layers / "0123456789ab" / "f00d0000.part", here.layers / "base" / "dead00000000"]
    for folder in left:
        folder.mkdir(parents=True)
        (folder / "memory").write_bytes(b"half")
    swept = sweep(here)
    assert {leak.path.name for leak in swept if leak.path} == {"0123456789ab", "dead00000000"}
    assert files_in(here) == kept
    assert check(Layer(here.layers / made.session.id / SECOND)) == []


def test_an_import_that_goes_on_is_not_swept(file: Path, here: Home) -> None:
    swept: list[Leak] = []

    class Sweeping(SilentProgress):
        def advance(self, fraction: float) -> None:
            swept.extend(sweep(here))

    importing.import_file(here, file, progress=Sweeping(), facts=same_facts)
    assert swept == []


def test_what_is_not_a_file_is_refused_in_words(here: Home, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing", Path("/dev/null")):
        with pytest.raises(UsageError, match=r"regular|cannot be read"):
            take_in(here, path)


def test_an_image_that_is_gone_is_said(tmp_path: Path) -> None:
    made = furnished(tmp_path / "there")
    shutil.rmtree(made.home.images / FACTS.image)
    with pytest.raises(HostError, match="image"):
        made.export(tmp_path / "file.bp")


def test_pages_taken_along_are_those_of_the_checkpoint(file: Path, here: Home) -> None:
    made = take_in(here, file)
    memory = Layer(here.layers / made.session.id / SECOND).memory
    assert memory.read_bytes().endswith(b"\x03" * 2 * PAGE)
    assert made.checkpoint.kind is CheckpointKind.USER

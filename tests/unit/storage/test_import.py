"""A checkpoint moved to another home: it is all there, and nothing that is not its own."""

from collections.abc import Callable
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
    furnished,
    home_with_image,
    take_in,
)

from branchpoint_vmruntime.errors import IncompatibleError, NameTakenError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.guest_image import ROOT, open_image
from branchpoint_vmruntime.image.progress import SilentProgress
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.lineage import BranchState, CheckpointKind
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.memory.dirty import PAGE
from branchpoint_vmruntime.memory.sparse import bytes_on_disk
from branchpoint_vmruntime.storage.digests import DIGESTS, check, verifiable, write_digests
from branchpoint_vmruntime.storage.exporting import export_checkpoint
from branchpoint_vmruntime.storage.foundations import Foundations
from branchpoint_vmruntime.store import IMAGE, Layer


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


@pytest.mark.parametrize("kind", [CheckpointKind.PAUSED, CheckpointKind.PARKED])
@pytest.mark.parametrize("branch", ["main~1", "r" * 64, f"{'r' * 64}~12"])
def test_a_checkpoint_that_is_called_after_its_branch_comes_along_whatever_that_is_called(
    kind: CheckpointKind, branch: str, file: Path, tmp_path: Path, here: Home
) -> None:
    def carried_on(header: Any) -> None:
        for layer in header["layers"][1:]:
            layer["checkpoint"] |= {"branch": branch, "kind": kind, "label": f"{kind}-{branch}-12"}

    made = take_in(here, altered(file, tmp_path / "carried-on.bp", change=carried_on))
    assert made.checkpoint.label == f"{kind}-{branch}-12"


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


def flipped(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


DAMAGES: dict[str, Callable[[Layer], object]] = {
    "a byte of its memory": lambda layer: flipped(layer.memory),
    "no memory": lambda layer: layer.memory.unlink(),
    "a byte of its note": lambda layer: flipped(layer.folder / DIGESTS),
    "a file that is not its own": lambda layer: (layer.folder / "more").touch(),
    "nothing at all": lambda layer: layer.folder.rename(layer.folder.with_name("aside")),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("damaged", [BASE, FIRST, SECOND])
def test_what_is_damaged_here_is_taken_from_the_file(
    damaged: str, damage: str, tmp_path: Path
) -> None:
    made = furnished(tmp_path / "home")
    file = made.export(tmp_path / "file.bp").file
    whole = {name: made.layer(name).memory.read_bytes() for name in (BASE, FIRST, SECOND)}
    DAMAGES[damage](made.layer(damaged))
    again = take_in(made.home, file)
    with Journal.read(made.home.database) as journal:
        chain = journal.checkpoints(again.session.id)
        assert [it.parent for it in chain] == [None, *(it.id for it in chain[:-1])]
        assert journal.base(FACTS.key) is not None
    for name, checkpoint in zip((BASE, FIRST, SECOND), chain, strict=True):
        layer = Layer(made.home.layers / (checkpoint.session or "base") / checkpoint.id)
        assert check(layer) == []
        assert layer.memory.read_bytes() == whole[name]
    shares = chain[0].id == BASE
    assert shares is (damaged != BASE)


def test_what_is_another_here_is_not_taken_for_damaged(tmp_path: Path) -> None:
    made = furnished(tmp_path / "home")
    file = made.export(tmp_path / "file.bp").file
    memory = made.layer(BASE).memory
    flipped(memory)
    write_digests(made.layer(BASE))
    memory.unlink()
    with pytest.raises(IncompatibleError, match="it is another: memory"):
        take_in(made.home, file)


def test_a_session_can_be_named(file: Path, here: Home) -> None:
    assert take_in(here, file, name="mine").session.key == "mine"
    with pytest.raises(NameTakenError, match="'mine'"):
        take_in(here, file, name="mine")


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


def test_what_the_image_came_out_as_is_noted_in_an_imported_base_and_is_not_carried(
    there: Furnished, file: Path, here: Home, tmp_path: Path
) -> None:
    carried = {each.name for each in there.export(tmp_path / "file.bp").package.layers[0].files}
    assert carried == {path.name for path in there.layer(BASE).folder.iterdir()} - {DIGESTS, IMAGE}
    take_in(here, file)
    layer = Layer(here.layers / "base" / BASE)
    assert layer.noted_image() == open_image(here.images / FACTS.image).bound_to
    assert check(layer) == []


def test_a_base_of_before_that_was_noted_is_the_same_base(
    here: Home, file: Path, tmp_path: Path
) -> None:
    take_in(here, file)
    of_then = furnished(tmp_path / "of-then", noted=False)
    take_in(here, of_then.export(tmp_path / "of-then.bp").file)
    take_in(of_then.home, file)


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


def test_pages_taken_along_are_those_of_the_checkpoint(file: Path, here: Home) -> None:
    made = take_in(here, file)
    memory = Layer(here.layers / made.session.id / SECOND).memory
    assert memory.read_bytes().endswith(b"\x03" * 2 * PAGE)
    assert made.checkpoint.kind is CheckpointKind.USER

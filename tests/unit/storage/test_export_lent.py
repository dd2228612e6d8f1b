"""A session that continues a branch is exported whole: with what another session has saved."""

from dataclasses import replace
from pathlib import Path

from tests.unit.storage.moving import BASE, FIRST, SECOND, furnished, home_with_image, take_in

from branchpoint_vmruntime.image.progress import SilentProgress
from branchpoint_vmruntime.lineage import CheckpointId, SessionId
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.storage.exporting import export_checkpoint

BORROWER = SessionId("b0b0b0b0b0b0")


def test_what_was_saved_before_a_branch_was_lent_goes_along_as_its_own(tmp_path: Path) -> None:
    made = furnished(tmp_path / "there")
    borrower = replace(
        made.session, id=BORROWER, key="demo-ridge.ipynb", start=CheckpointId(SECOND)
    )
    with Journal.open(made.home.database) as journal:
        journal.add_session(borrower)
    file = tmp_path / "ridge.bp"
    export_checkpoint(made.home, borrower, made.checkpoint(), file, progress=SilentProgress())
    here = home_with_image(tmp_path / "here")
    taken = take_in(here, file).session
    with Journal.read(here.database) as journal:
        there = journal.checkpoints(taken.id)
    assert [it.id for it in there] == [BASE, FIRST, SECOND]
    assert [it.session for it in there] == [None, taken.id, taken.id]
    for name in (FIRST, SECOND):
        copied = (here.layers / taken.id / name / "memory").read_bytes()
        assert copied == made.layer(name).memory.read_bytes()

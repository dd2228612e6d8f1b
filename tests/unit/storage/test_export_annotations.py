"""What a checkpoint is called in a file: as a person called it last."""

from pathlib import Path

from tests.unit.storage.moving import FIRST, SECOND, furnished, home_with_image, take_in

from branchpoint_vmruntime.lineage import CheckpointId
from branchpoint_vmruntime.lineage.journal import Journal


def test_a_file_takes_labels_and_notes_along_as_they_are_now(tmp_path: Path) -> None:
    there = furnished(tmp_path / "there")
    with Journal.open(there.home.database) as journal:
        journal.annotate(CheckpointId(FIRST), label="größe-加载")
        journal.annotate(CheckpointId(SECOND), note="ohne die Zeilen\nvon 2019")
    here = home_with_image(tmp_path / "here")
    made = take_in(here, there.export(tmp_path / "file.bp").file)
    with Journal.open(here.database) as journal:
        _, first, second = journal.checkpoints(made.session.id)
        assert (first.label, first.note) == ("größe-加载", "")
        assert (second.label, second.note) == ("trained", "ohne die Zeilen\nvon 2019")
        # It is this session's own now, and can be called otherwise here.
        assert journal.annotate(second.id, label="here").label == "here"
    with Journal.read(there.home.database) as journal:
        assert journal.every_checkpoint()[-1].label == "trained"

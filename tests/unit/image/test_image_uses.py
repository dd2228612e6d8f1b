"""The images of a home are listed with what was saved on each."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.fake_workshop import BASE
from tests.unit.image.conftest import write_files
from tests.unit.runtime.studio import FACTS

from branchpoint_cli.image import image_lines
from branchpoint_kernel.rendering import as_text
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.guest_image import FILES, write_manifest
from branchpoint_vmruntime.image.recipe import Recipe
from branchpoint_vmruntime.image.wanted import ImageSpec
from branchpoint_vmruntime.image_uses import image_uses
from branchpoint_vmruntime.lineage import (
    BranchName,
    Checkpoint,
    CheckpointId,
    CheckpointKind,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.store import LayerStore

DEFAULT = Recipe.default()
OTHER = Recipe.of(ImageSpec.of(python=["tabulate"], debian=["graphviz"]))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """It has the default image and another."""
    made = Home(tmp_path / "home", tmp_path / "run")
    made.ensure()
    for recipe in (OTHER, DEFAULT):
        write_files(made.images / recipe.digest, dict.fromkeys(FILES, "content"))
        write_manifest(made.images / recipe.digest, recipe, {})
    write_files(made.images / ".half.1", {"manifest.json": "{"})
    return made


def saved(home: Home, point: Checkpoint, image: str) -> Checkpoint:
    """Write the files of a checkpoint that was saved on an image."""
    store = LayerStore(home.layers / (point.session or "base"))
    store.stage(point.id).write_facts(replace(FACTS, image=image), "nonce")
    (home.layers / (point.session or "base") / f"{point.id}.part").rename(
        home.layers / (point.session or "base") / point.id
    )
    return point


def test_the_default_one_comes_first_and_what_an_unfinished_build_left_does_not(
    home: Home,
) -> None:
    default, other = image_uses(home)
    assert default.default
    assert default.digest == DEFAULT.digest
    assert (other.python, other.debian) == (("tabulate",), ("graphviz",))
    assert other.disk_bytes > 0
    assert (other.bases, other.sessions) == (0, ())


def test_bases_and_sessions_are_counted_with_the_image_they_were_saved_on(home: Home) -> None:
    point = replace(
        BASE,
        id=CheckpointId("c0ffee"),
        session=SessionId("s-1"),
        parent=BASE.id,
        kind=CheckpointKind.USER,
        branch=BranchName("main"),
        key="session's",
    )
    with Journal.open(home.database) as journal:
        now = datetime.now(UTC)
        journal.add_session(SessionRecord(id=SessionId("s-1"), key="a notebook", created_at=now))
        journal.add_checkpoint(saved(home, BASE, OTHER.digest), advance=None)
        journal.add_checkpoint(saved(home, point, OTHER.digest), advance=None)
    default, other = image_uses(home)
    assert (default.bases, default.sessions) == (0, ())
    assert other.bases == 1
    assert [(use.key, use.checkpoints) for use in other.sessions] == [("a notebook", 1)]
    text = as_text(image_lines(other))
    assert "debian: graphviz" in text
    assert "session s-1 (a notebook)" in text
    assert "1 checkpoint" in text

"""`branchpoint import`: what is noted so that `branchpoint resume` can carry it on."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.live_kernel import wait_until
from tests.unit.cli.staffed import staffed
from tests.unit.storage.moving import IMAGE, furnished, same_facts

from branchpoint_cli import import_
from branchpoint_cli.__main__ import main
from branchpoint_cli.origin import origin_of
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.guest_image import MANIFEST
from branchpoint_vmruntime.image.progress import Progress
from branchpoint_vmruntime.image.wanted import ImageSpec
from branchpoint_vmruntime.lineage import SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.manifest import Manifest
from branchpoint_vmruntime.spec import MachineSize
from branchpoint_vmruntime.storage.importing import Imported, import_file

Captured = pytest.CaptureFixture[str]
Said = Callable[[], Any]
DEFAULT = MachineSize()


def exported(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: MachineSize,
    image: ImageSpec | None = None,
) -> Path:
    """A file with a machine that is taken for one of that size, on an image with those packages."""
    there = furnished(folder / "there")
    place = there.home.images / IMAGE / MANIFEST
    wanted = image or ImageSpec()
    said = {"python": wanted.python, "debian": wanted.debian}
    place.write_text(json.dumps(json.loads(place.read_text()) | said))
    file = folder / "trained.bp"
    there.export(file, with_image=True)

    def sized(home: Home, file: Path, *, progress: Progress, name: str | None) -> Imported:
        made = import_file(home, file, progress=progress, name=name, facts=same_facts)
        facts = replace(made.facts, memory_mib=size.memory_mib, vcpus=size.vcpus)
        return replace(made, facts=facts)

    monkeypatch.setattr(import_, "import_file", sized)
    return file


def only_session(home: Home) -> SessionRecord:
    with Journal.read(home.database) as journal:
        (session,) = journal.sessions()
    return session


def test_a_machine_of_another_size_and_image_is_carried_on_with_these(
    own_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    size = MachineSize(memory_mib=2048, vcpus=2)
    image = ImageSpec(python=("scipy>=1.11",), debian=("graphviz",))
    file = exported(tmp_path, monkeypatch, size, image)
    assert main(["import", str(file), "--name", "größer", "--json"]) == 0
    origin = origin_of(own_home, only_session(own_home))
    assert origin.manifest is not None
    assert said()["manifest"] == str(origin.manifest)
    manifest = Manifest.load(origin.manifest)
    assert (manifest.size, manifest.image) == (size, image)


def test_where_it_is_written_is_said(
    own_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    file = exported(tmp_path, monkeypatch, MachineSize(memory_mib=2048))
    assert main(["import", str(file)]) == 0
    place = own_home.session(only_session(own_home).id) / "branchpoint.yaml"
    assert f"what its machine has to be is in {place}" in capsys.readouterr().out
    assert place.read_text() == 'machine: {"memory": "2048mb", "vcpus": 1}\n'


def test_of_an_everyday_machine_nothing_is_noted(
    own_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    file = exported(tmp_path, monkeypatch, DEFAULT)
    assert main(["import", str(file), "--name", "größer", "--json"]) == 0
    assert said()["manifest"] is None
    assert origin_of(own_home, only_session(own_home)).manifest is None


def test_a_manifest_beside_its_notebook_goes_first(
    own_home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = tmp_path / "branchpoint.yaml"
    beside.write_text("machine: 1vcpu-2gb\n")
    file = exported(tmp_path, monkeypatch, MachineSize(memory_mib=2048))
    assert main(["import", str(file), "--name", str(tmp_path / "a.ipynb")]) == 0
    assert origin_of(own_home, only_session(own_home)).manifest == beside


def test_an_open_session_is_not_given_another_manifest(
    own_home: Home, tmp_path: Path, capsys: Captured
) -> None:
    manifest = tmp_path / "branchpoint.yaml"
    manifest.write_text("machine: 1vcpu-2gb\n")
    with staffed(own_home):
        assert main(["resume", "-f", str(manifest)]) == 1
    assert wait_until(lambda: not own_home.control("s-1").exists())
    assert "has the manifest it was opened with" in capsys.readouterr().err

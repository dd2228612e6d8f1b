"""What a session without a notebook was created from, or is bound to, to carry it on with it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.guest_image import open_image
from branchpoint_vmruntime.lineage import SessionRecord
from branchpoint_vmruntime.manifest import FILE_NAME, NOTEBOOK_SUFFIX
from branchpoint_vmruntime.manifest.embedded import says_manifest
from branchpoint_vmruntime.spec import MachineSize
from branchpoint_vmruntime.storage.importing import Imported


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The manifest's file, None for the defaults, and the folder its files come from."""

    manifest: Path | None
    folder: Path


def origin_at(file: Path) -> Origin:
    """That of a session opened with this manifest; UsageError if it is a folder."""
    if file.is_dir():
        raise UsageError(
            f"{str(file)!r} is a folder", hint=f"name the manifest in it: {file / FILE_NAME}"
        )
    return Origin(manifest=file.absolute(), folder=file.absolute().parent)


def note_origin(home: Home, session: str, origin: Origin) -> None:
    """Remember it with the session."""
    folder = home.session(session)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fields = {name: value and str(value) for name, value in asdict(origin).items()}
    (folder / _NAME).write_text(json.dumps(fields))


def origin_of(home: Home, session: SessionRecord) -> Origin:
    """What the session was created from; for a notebook's, itself or what lies beside it."""
    try:
        noted = cast("dict[str, Any]", json.loads((home.session(session.id) / _NAME).read_text()))
        manifest = noted["manifest"]
        return Origin(manifest=manifest and Path(manifest), folder=Path(noted["folder"]))
    except (OSError, ValueError, KeyError, TypeError):
        notebook = Path(session.key)
        if not notebook.is_absolute():
            return Origin(manifest=None, folder=Path.cwd())
        beside = notebook.parent / FILE_NAME
        itself = notebook.suffix == NOTEBOOK_SUFFIX and says_manifest(notebook)
        asked = (notebook, itself), (beside, beside.exists())
        return Origin(
            manifest=next((file for file, there in asked if there), None), folder=notebook.parent
        )


def note_machine(home: Home, imported: Imported) -> Path | None:
    """Write a manifest of the machine that was imported, for the session to be opened with.

    It says size and packages where they are not the defaults, as only such a machine can carry it
    on. None if they are, or if a manifest lies beside its notebook.
    """
    image = open_image(home.images / imported.facts.image).manifest
    size = MachineSize(memory_mib=imported.facts.memory_mib, vcpus=imported.facts.vcpus)
    said: dict[str, Mapping[str, object]] = {}
    if size != MachineSize():
        said["machine"] = {"memory": f"{size.memory_mib}mb", "vcpus": size.vcpus}
    if image.python or image.debian:
        said["image"] = {"python": image.python, "debian": image.debian}
    if not said or origin_of(home, imported.session).manifest is not None:
        return None
    folder = home.session(imported.session.id)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder / FILE_NAME
    # What is JSON is YAML as well.
    file.write_text("".join(f"{name}: {json.dumps(it)}\n" for name, it in said.items()))
    note_origin(home, imported.session.id, origin_at(file))
    return file


_NAME = "created.json"

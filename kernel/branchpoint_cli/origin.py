"""What a session without a notebook was created from, or is bound to, to carry it on with it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import SessionRecord
from branchpoint_vmruntime.manifest import FILE_NAME, NOTEBOOK_SUFFIX
from branchpoint_vmruntime.manifest.embedded import says_manifest


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


_NAME = "created.json"

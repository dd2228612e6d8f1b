"""What a session without a notebook was created from, to carry it on with the same."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import SessionRecord
from branchpoint_vmruntime.manifest import FILE_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The manifest's file, None for the defaults, and the folder its files come from."""

    manifest: Path | None
    folder: Path


def note_origin(home: Home, session: str, origin: Origin) -> None:
    """Remember it with the session."""
    folder = home.session(session)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fields = {name: value and str(value) for name, value in asdict(origin).items()}
    (folder / _NAME).write_text(json.dumps(fields))


def origin_of(home: Home, session: SessionRecord) -> Origin:
    """What the session was created from; for a notebook's, what lies beside the notebook."""
    try:
        noted = cast("dict[str, Any]", json.loads((home.session(session.id) / _NAME).read_text()))
        manifest = noted["manifest"]
        return Origin(manifest=manifest and Path(manifest), folder=Path(noted["folder"]))
    except (OSError, ValueError, KeyError, TypeError):
        notebook = Path(session.key)
        folder = notebook.parent if notebook.is_absolute() else Path.cwd()
        beside = folder / FILE_NAME
        there = notebook.is_absolute() and beside.exists()
        return Origin(manifest=beside if there else None, folder=folder)


_NAME = "created.json"

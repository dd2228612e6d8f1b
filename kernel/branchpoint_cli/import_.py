"""`branchpoint import`: take in a file that `branchpoint export` wrote, as a session of its own."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from branchpoint_cli.origin import note_origin, origin_at, origin_of
from branchpoint_cli.progress import ShownProgress
from branchpoint_cli.screen import show, standard_error
from branchpoint_kernel.effects import printable
from branchpoint_kernel.rendering import note
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.guest_image import open_image
from branchpoint_vmruntime.manifest import FILE_NAME
from branchpoint_vmruntime.spec import MachineSize
from branchpoint_vmruntime.storage.importing import Imported, import_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command understands."""
    parser.add_argument("file", metavar="FILE", type=Path, help="what `branchpoint export` wrote")
    parser.add_argument(
        "--name", metavar="NAME", help="what the session is to be found by; by default as it was"
    )
    parser.add_argument("--json", action="store_true", help="show the result as JSON")


def run(options: argparse.Namespace, console: Console) -> int:
    """Take it in, whole or not at all."""
    home = Home.default()
    with ShownProgress(standard_error()) as progress:
        made = import_file(home, options.file, progress=progress, name=options.name)
    manifest = _note_machine(home, made)
    facts = {
        "session": made.session.id,
        "key": made.session.key,
        "branch": made.branch.name,
        "checkpoint": made.checkpoint.id,
        "label": made.checkpoint.label,
        "took_image": made.took_image,
        "manifest": manifest,
    }
    lines = [
        note(
            "●",
            f"{made.checkpoint.label or made.checkpoint.id} is in session {made.session.id}",
            printable(made.session.key),
            f"branch {made.branch.name} is paused there",
        ),
        note("▶", f"carry it on: branchpoint resume --session {made.session.id}"),
    ]
    if manifest is not None:
        lines.append(note("●", f"what its machine has to be is in {manifest}", "add to it there"))
    if made.took_image:
        lines.append(note("⚠", "its image is this home's now: fresh machines start from it too"))
    show(facts, options, console, *lines)
    return 0


def _note_machine(home: Home, imported: Imported) -> Path | None:
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

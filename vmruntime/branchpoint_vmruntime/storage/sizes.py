"""What checkpoints take on disk: own, shared and apparent, which are three things.

Own is on the disk for it alone, and free once it goes. Shared is on the disk once for it and for
others. Apparent is what it would take if it stood by itself, with nothing left out.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointId
from branchpoint_vmruntime.store import MEMORY, Layer

_BLOCK = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Bytes of disk."""

    own: int = 0
    shared: int = 0
    apparent: int = 0


def layer_of(home: Home, checkpoint: Checkpoint) -> Layer:
    """Where a checkpoint's files are."""
    return Layer(home.layers / (checkpoint.session or "base") / checkpoint.id)


def on_disk(path: Path) -> int:
    """What a file or a folder with all in it takes, holes left out; 0 if it is not there.

    What goes away in the meantime is not counted.
    """
    try:
        entry = path.lstat()
        if not path.is_dir() or path.is_symlink():
            return entry.st_blocks * _BLOCK
        with os.scandir(path) as entries:
            inside = [Path(each.path) for each in entries]
    except OSError:
        return 0
    return entry.st_blocks * _BLOCK + sum(map(on_disk, inside))


def own_sizes(home: Home, checkpoints: Sequence[Checkpoint]) -> Mapping[CheckpointId, int]:
    """What removing each would free, as it is on the disk now: one look at each folder."""
    return {each.id: _files(layer_of(home, each).folder).own for each in checkpoints}


def checkpoint_sizes(home: Home, checkpoints: Sequence[Checkpoint]) -> Mapping[CheckpointId, Sizes]:
    """Of each of a session's checkpoints, given with all they descend from, oldest first.

    What a checkpoint shares is all that its ancestors have, down to the base, and what of it is
    linked from another session: an import links what is here already.
    """
    found: dict[CheckpointId, Sizes] = {}
    memory: dict[CheckpointId, int] = {}
    for each in checkpoints:
        above = found.get(each.parent) if each.parent else None
        files = _files(layer_of(home, each).folder)
        whole = memory.get(each.parent, 0) if each.parent else files.memory
        memory[each.id] = whole
        # The memory in full once; of the disk, what each layer of the chain holds.
        disk = files.apparent - files.memory + (above.apparent - whole if above else 0)
        found[each.id] = Sizes(
            own=files.own,
            shared=files.linked + (above.own + above.shared if above else 0),
            apparent=whole + disk,
        )
    return found


@dataclass(slots=True)
class _Files:
    """What a layer takes for itself and together with others, and what its files say they hold."""

    own: int = 0
    linked: int = 0
    apparent: int = 0
    memory: int = 0


def _files(folder: Path) -> _Files:
    found = _Files()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                facts = entry.stat(follow_symlinks=False)
                if facts.st_nlink == 1:
                    found.own += facts.st_blocks * _BLOCK
                else:
                    found.linked += facts.st_blocks * _BLOCK
                found.apparent += facts.st_size
                if entry.name == MEMORY:
                    found.memory = facts.st_size
    except OSError:
        # Gone, or going: it takes nothing any more.
        return _Files()
    return found

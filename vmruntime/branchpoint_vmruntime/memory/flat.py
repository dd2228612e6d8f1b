"""Flat images.

A checkpoint's whole memory as one file that machines can map. A cache, but for the base.
"""

import asyncio
import contextlib
import os
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.lineage import CheckpointId
from branchpoint_vmruntime.memory.layer import apply_layer
from branchpoint_vmruntime.memory.sparse import copy_sparse

KEEP_IDLE = 3


@dataclass(frozen=True, slots=True)
class MemoryLink:
    """One link of the chain that makes up a checkpoint's memory.

    Its layer, or for the base the image itself.
    """

    checkpoint: CheckpointId
    path: Path


class FlatImages:
    """The flat images of one session.

    An image in use by a machine is leased, and stays as it is. Idle ones beyond `KEEP_IDLE` are not
    added to: instead the parent's is taken over and brought forward, which costs as much as the
    layer is large.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._leases: Counter[CheckpointId] = Counter()
        self._locks: dict[CheckpointId, asyncio.Lock] = {}
        self._builds: dict[CheckpointId, threading.Lock] = {}
        self._given_up: set[CheckpointId] = set()
        # Builds run in threads, and what one of them takes over another must not be using.
        self._claim = threading.Lock()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for leftover in folder.glob("*.part"):
            leftover.unlink()

    async def lease(self, chain: Sequence[MemoryLink]) -> Path:
        """The flat image of the last of the chain, made if need be; it stays until released."""
        target = chain[-1].checkpoint
        self._hold(target)
        try:
            return await self.prepare(chain)
        except BaseException:
            self.release(target)
            raise

    def release(self, checkpoint: CheckpointId) -> None:
        """One user less."""
        with self._claim:
            self._leases[checkpoint] -= 1
            self._drop_given_up(checkpoint)

    async def prepare(self, chain: Sequence[MemoryLink]) -> Path:
        """Make the flat image of the last of the chain, whose first is the base."""
        if len(chain) == 1:
            return chain[0].path
        with self._claim:
            self._given_up.discard(chain[-1].checkpoint)
        async with self._locks.setdefault(chain[-1].checkpoint, asyncio.Lock()):
            return await asyncio.to_thread(self._build, chain)

    def discard(self, checkpoint: CheckpointId) -> None:
        """Give up a checkpoint's flat image: one in use goes with the last of its users."""
        with self._claim:
            self._given_up.add(checkpoint)
            self._drop_given_up(checkpoint)

    def _path(self, checkpoint: CheckpointId) -> Path:
        return self._folder / f"{checkpoint}.mem"

    def _drop_given_up(self, checkpoint: CheckpointId) -> None:
        if checkpoint in self._given_up and not self._leases[checkpoint]:
            # It is only a cache, and goes with the session at the latest.
            with contextlib.suppress(OSError):
                self._path(checkpoint).unlink(missing_ok=True)

    def _hold(self, checkpoint: CheckpointId) -> None:
        with self._claim:
            self._leases[checkpoint] += 1

    def _build(self, chain: Sequence[MemoryLink]) -> Path:
        target = self._path(chain[-1].checkpoint)
        # A thread cannot be called off: the build of a caller who was may still be under way.
        with self._builds.setdefault(chain[-1].checkpoint, threading.Lock()):
            if target.exists():
                return target
            part = target.with_suffix(".part")
            part.unlink(missing_ok=True)
            try:
                nearest = self._begin(chain, part)
                with part.open("r+b") as file:
                    for link in chain[nearest + 1 :]:
                        apply_layer(link.path, file.fileno())
                part.replace(target)
                # It may have been given up since whoever wanted it was called off.
                with self._claim:
                    self._drop_given_up(chain[-1].checkpoint)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
            return target

    def _begin(self, chain: Sequence[MemoryLink], part: Path) -> int:
        """Put the nearest image there is in the new one's place; where in the chain it was."""
        with self._claim:
            nearest = max(
                (place for place, link in enumerate(chain) if self._path(link.checkpoint).exists()),
                default=0,
            )
            source = chain[nearest].checkpoint
            if nearest == len(chain) - 2 and self._may_take(source):
                self._path(source).replace(part)
                return nearest
            self._leases[source] += 1
        try:
            copy_sparse(chain[0].path if nearest == 0 else self._path(source), part)
        finally:
            self.release(source)
        return nearest

    def _may_take(self, checkpoint: CheckpointId) -> bool:
        if self._leases[checkpoint] or not self._path(checkpoint).exists():
            return False
        idle = [p for p in self._folder.glob("*.mem") if not self._leases[CheckpointId(p.stem)]]
        return len(idle) >= KEEP_IDLE


def sync_file(path: Path) -> None:
    """Make a file's bytes last before its name does."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

"""Makes machines out of checkpoints and checkpoints out of machines, for one session.

Knows no branches. One machine stands by for the checkpoint that is most likely wanted next.
"""

import asyncio
import contextlib
import secrets
import shutil
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.branch import Live
from branchpoint_vmruntime.branch_seam import WakeReason
from branchpoint_vmruntime.checkpoint import (
    CheckpointOrder,
    Draft,
    draft,
    publish,
    require_space,
    restore_error,
    storage_error,
)
from branchpoint_vmruntime.errors import BranchpointError, DamagedError, MachineError
from branchpoint_vmruntime.foundation import Foundation
from branchpoint_vmruntime.host import memory
from branchpoint_vmruntime.incarnation import Identity
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointId
from branchpoint_vmruntime.lineage.tree import Tree
from branchpoint_vmruntime.machine import Machine
from branchpoint_vmruntime.memory.flat import FlatImages, MemoryLink
from branchpoint_vmruntime.restore import (
    SavedMachine,
    Woken,
    disk_chain,
    restored,
    standing_by,
    wake_standing,
)
from branchpoint_vmruntime.storage.digests import read_digests
from branchpoint_vmruntime.store import DISK_PREFIX, Layer, LayerStore

STAND_BY_AFTER_S = 0.3
# Memories in full that must fit on the disk for one to be made before it is wanted.
_TO_SPARE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """A machine that stands by, and what ends it."""

    checkpoint: CheckpointId
    machine: Machine
    saved: SavedMachine
    stack: AsyncExitStack


class Workshop:
    """What it takes to do that: the foundation, the stores, and a folder for machines that live."""

    def __init__(
        self,
        *,
        foundation: Foundation,
        bases: LayerStore,
        layers: LayerStore,
        flats: FlatImages,
        live: Path,
    ) -> None:
        self._foundation = foundation
        self._bases = bases
        self._layers = layers
        self._flats = flats
        self._live = live
        self._standing: _Standing | None = None
        self._complete: set[Path] = set()

    @property
    def ready_for(self) -> CheckpointId | None:
        """The checkpoint a machine stands by for, if one does."""
        return self._standing.checkpoint if self._standing else None

    async def close(self) -> None:
        """End the machine that stands by."""
        standing, self._standing = self._standing, None
        if standing is not None:
            await standing.stack.aclose()

    async def stand_by(self, tree: Tree, checkpoint: Checkpoint) -> None:
        """Have a machine ready for that checkpoint, and none for another.

        Only a head start: if it cannot be, who wants the checkpoint starts a machine and hears why.
        """
        if self._standing is not None and self._standing.checkpoint == checkpoint.id:
            return
        await self.close()
        with contextlib.suppress(BranchpointError, OSError):
            async with AsyncExitStack() as stack:
                saved = await self._lease(stack, tree, checkpoint)
                # One checkpoint right after another would start a machine for each in vain.
                await asyncio.sleep(STAND_BY_AFTER_S)
                machine = await stack.enter_async_context(standing_by(saved, self._new_folder()))
                if self._standing is None:
                    self._standing = _Standing(
                        checkpoint=checkpoint.id,
                        machine=machine,
                        saved=saved,
                        stack=stack.pop_all(),
                    )

    def available_bytes(self) -> int:
        """Host memory that more machines could have."""
        return memory().available_bytes

    def has_room_to_spare(self) -> bool:
        """Whether the disk has room for what is only a head start, and for much else besides."""
        needed = _TO_SPARE * self._foundation.size.memory_mib << 20
        try:
            return shutil.disk_usage(self._live).free > needed
        except OSError:
            return False

    async def wake(
        self, tree: Tree, checkpoint: Checkpoint, identity: Identity, *, reseed: bool
    ) -> Live:
        """A machine that carries on from the checkpoint. Nothing remains of one that does not.

        DamagedError if what it is made of cannot be read, IncompatibleError if it is another's.
        """
        try:
            self.require_loadable(tree, checkpoint)
            return await self._wake(tree, checkpoint, identity, reseed=reseed)
        except (OSError, DamagedError) as error:
            raise restore_error(error, checkpoint, self._read_from(tree, checkpoint)) from error

    async def _wake(
        self, tree: Tree, checkpoint: Checkpoint, identity: Identity, *, reseed: bool
    ) -> Live:
        # To look into a checkpoint is not to carry on from it: that is what one stands by for.
        peeks = identity.reason is WakeReason.PEEK
        standing = None if peeks else self._take_standing(checkpoint)
        if standing is not None:
            # One that did not come up may have stood too long; a fresh one says what is wrong.
            with contextlib.suppress(MachineError):
                return await _wake_standing(standing, checkpoint, identity, reseed=reseed)
        async with AsyncExitStack() as stack:
            saved = await self._lease(stack, tree, checkpoint)
            woken = await stack.enter_async_context(
                restored(saved, self._new_folder(), identity, reseed=reseed)
            )
            return _live(woken, checkpoint, stack)

    def require_loadable(self, tree: Tree, checkpoint: Checkpoint) -> None:
        """IncompatibleError or DamagedError if the checkpoint was not saved by such a machine."""
        base = tree.path(checkpoint.id)[-1]
        self._foundation.require_loadable(self.layer(checkpoint).facts(), self.layer(base))

    async def saved_machine(self, tree: Tree, checkpoint: Checkpoint) -> SavedMachine:
        """Where a checkpoint's parts are, its flat image made if need be."""
        image = await self._flats.prepare(self._memory_chain(tree, checkpoint))
        return self._saved_machine(tree, checkpoint, image)

    async def draft(self, live: Live, order: CheckpointOrder, *, resume: bool) -> Draft:
        """Capture a machine; it runs on unless `resume` is false."""
        await asyncio.to_thread(require_space, self._live, live.machine)
        template = self._foundation.overlay_template
        return await draft(self._layers, live.machine, template, order, resume=resume)

    async def publish(self, pending: Draft, live: Live, tree: Tree) -> Checkpoint:
        """Write what differs from the parent, and put the checkpoint in place.

        Nothing is left of one that cannot be.
        """
        parent = tree.checkpoint(pending.order.parent)
        try:
            image = await self._flats.lease(self._memory_chain(tree, parent))
        except BaseException as error:
            self.abandon(pending)
            if isinstance(error, OSError | DamagedError):
                raise self._parent_error(error, tree, parent) from error
            raise
        try:
            facts = self._foundation.facts
            return await publish(self._layers, pending, image, facts, live.awake.nonce)
        finally:
            self._flats.release(parent.id)

    def _parent_error(
        self, error: OSError | DamagedError, tree: Tree, parent: Checkpoint
    ) -> BranchpointError:
        """Why what a machine has written since its parent cannot be told from what that had."""
        found = restore_error(error, parent, self._read_from(tree, parent))
        if isinstance(error, OSError) and not isinstance(found, DamagedError):
            return storage_error(error)
        return found

    def _read_from(self, tree: Tree, checkpoint: Checkpoint) -> list[Path]:
        """The folders of all that a checkpoint's machine is made of."""
        chain = [self.layer(it).folder for it in tree.path(checkpoint.id)]
        return [*chain, self._foundation.root.parent]

    def layer(self, checkpoint: Checkpoint) -> Layer:
        """Where a checkpoint's files are, also one that another session has taken."""
        store = self._bases if checkpoint.session is None else self._layers
        return store.of(checkpoint)

    def missing(self, tree: Tree, checkpoint: Checkpoint) -> list[Checkpoint]:
        """Those a checkpoint is made of, itself included, whose files are gone."""
        return [
            it
            for it in tree.path(checkpoint.id)
            if not ((layer := self.layer(it)).memory.exists() and layer.devices.exists())
        ]

    def abandon(self, pending: Draft) -> None:
        """Remove a capture that will not become a checkpoint."""
        self._layers.discard(pending.staged)

    def discard(self, checkpoint: Checkpoint) -> None:
        """Remove a checkpoint's files, after its record is gone."""
        self._flats.discard(checkpoint.id)
        self._layers.discard(self.layer(checkpoint))

    async def remove(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Remove checkpoints' files, after their records are gone, and what stands by for one."""
        if self.ready_for in {checkpoint.id for checkpoint in checkpoints}:
            await self.close()
        for checkpoint in checkpoints:
            await asyncio.to_thread(self.discard, checkpoint)

    def _take_standing(self, checkpoint: Checkpoint) -> _Standing | None:
        standing = self._standing
        if standing is None or standing.checkpoint != checkpoint.id or not standing.machine.alive:
            return None
        self._standing = None
        return standing

    async def _lease(
        self, stack: AsyncExitStack, tree: Tree, checkpoint: Checkpoint
    ) -> SavedMachine:
        """A checkpoint's parts, its flat image kept as it is until the stack is closed."""
        image = await self._flats.lease(self._memory_chain(tree, checkpoint))
        stack.callback(self._flats.release, checkpoint.id)
        return self._saved_machine(tree, checkpoint, image)

    def _new_folder(self) -> Path:
        return self._live / secrets.token_hex(8)

    def _memory_chain(self, tree: Tree, checkpoint: Checkpoint) -> list[MemoryLink]:
        return [MemoryLink(c.id, self.layer(c).memory) for c in _from_root(tree, checkpoint)]

    def _saved_machine(self, tree: Tree, checkpoint: Checkpoint, image: Path) -> SavedMachine:
        chain = [self.layer(c) for c in _from_root(tree, checkpoint)]
        for layer in chain:
            self._require_disks(layer)
        return SavedMachine(
            emulator=self._foundation.emulator,
            size=self._foundation.size,
            root=self._foundation.root,
            overlay_template=self._foundation.overlay_template,
            memory=image,
            devices=chain[-1].devices,
            disk_layers=disk_chain(
                self._foundation.disk_template, [layer.disks for layer in chain]
            ),
            nonce=chain[-1].nonce,
        )

    def _require_disks(self, layer: Layer) -> None:
        """DamagedError if what was written to the disk is not all there.

        What is not there is not seen to be missing: the disk would be an earlier one.
        """
        if layer.folder in self._complete:
            return
        try:
            noted = {name for name in read_digests(layer) if name.startswith(DISK_PREFIX)}
        except DamagedError:
            # The note is damaged itself, and nothing that a machine needs.
            noted = set[str]()
        if missing := sorted(noted - {disk.name for disk in layer.disks}):
            raise DamagedError(f"{layer.folder / missing[0]} is missing")
        self._complete.add(layer.folder)


async def _wake_standing(
    standing: _Standing, checkpoint: Checkpoint, identity: Identity, *, reseed: bool
) -> Live:
    async with AsyncExitStack() as stack:
        stack.push_async_exit(standing.stack)
        woken = await wake_standing(standing.machine, standing.saved, identity, reseed=reseed)
        return _live(woken, checkpoint, stack)


def _live(woken: Woken, checkpoint: Checkpoint, stack: AsyncExitStack) -> Live:
    return Live(
        machine=woken.machine,
        awake=woken.awake,
        cost=woken.cost,
        woken_from=checkpoint.id,
        stack=stack.pop_all(),
    )


def _from_root(tree: Tree, checkpoint: Checkpoint) -> list[Checkpoint]:
    return list(reversed(tree.path(checkpoint.id)))

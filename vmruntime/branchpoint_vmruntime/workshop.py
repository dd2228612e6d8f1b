"""Makes machines out of checkpoints and checkpoints out of machines, for one session.

Knows no branches.
"""

import secrets
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.branch import Live
from branchpoint_vmruntime.checkpoint import CheckpointOrder, Draft, draft, publish, require_space
from branchpoint_vmruntime.foundation import Foundation
from branchpoint_vmruntime.incarnation import Identity
from branchpoint_vmruntime.lineage import Checkpoint
from branchpoint_vmruntime.lineage.tree import Tree
from branchpoint_vmruntime.memory.flat import FlatImages, MemoryLink
from branchpoint_vmruntime.restore import SavedMachine, disk_chain, restored
from branchpoint_vmruntime.store import Layer, LayerStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What it takes to do that: the foundation, the stores, and a folder for machines that live."""

    foundation: Foundation
    bases: LayerStore
    layers: LayerStore
    flats: FlatImages
    live: Path

    def layer(self, checkpoint: Checkpoint) -> Layer:
        """Where a checkpoint's files are."""
        store = self.bases if checkpoint.session is None else self.layers
        return store.layer(checkpoint.id)

    async def wake(
        self, tree: Tree, checkpoint: Checkpoint, identity: Identity, *, reseed: bool
    ) -> Live:
        """A machine that carries on from the checkpoint.

        Nothing remains of one that does not come up.
        """
        self.foundation.facts.require_same(self.layer(checkpoint).facts())
        async with AsyncExitStack() as stack:
            image = await self.flats.lease(self._memory_chain(tree, checkpoint))
            stack.callback(self.flats.release, checkpoint.id)
            saved = self._saved_machine(tree, checkpoint, image)
            folder = self.live / f"{identity.incarnation}-{secrets.token_hex(2)}"
            machine, awake, cost = await stack.enter_async_context(
                restored(saved, folder, identity, reseed=reseed)
            )
            return Live(
                machine=machine,
                awake=awake,
                cost=cost,
                woken_from=checkpoint.id,
                stack=stack.pop_all(),
            )

    async def prepare(self, tree: Tree, checkpoint: Checkpoint) -> Path:
        """Make a checkpoint's flat image ahead of need."""
        return await self.flats.prepare(self._memory_chain(tree, checkpoint))

    async def saved_machine(self, tree: Tree, checkpoint: Checkpoint) -> SavedMachine:
        """Where a checkpoint's parts are, its flat image made if need be."""
        return self._saved_machine(tree, checkpoint, await self.prepare(tree, checkpoint))

    async def draft(self, live: Live, order: CheckpointOrder, *, resume: bool) -> Draft:
        """Capture a machine; it runs on unless `resume` is false."""
        require_space(self.live, live.machine)
        template = self.foundation.overlay_template
        return await draft(self.layers, live.machine, template, order, resume=resume)

    async def publish(self, pending: Draft, live: Live, tree: Tree) -> Checkpoint:
        """Write what differs from the parent, and put the checkpoint in place."""
        parent = tree.checkpoint(pending.order.parent)
        image = await self.flats.lease(self._memory_chain(tree, parent))
        try:
            facts = self.foundation.facts
            return await publish(self.layers, pending, live.machine, image, facts, live.awake.nonce)
        finally:
            self.flats.release(parent.id)

    def discard(self, checkpoint: Checkpoint) -> None:
        """Remove a checkpoint's files, after its record is gone."""
        self.flats.discard(checkpoint.id)
        self.layers.discard(self.layer(checkpoint))

    def _memory_chain(self, tree: Tree, checkpoint: Checkpoint) -> list[MemoryLink]:
        return [MemoryLink(c.id, self.layer(c).memory) for c in _from_root(tree, checkpoint)]

    def _saved_machine(self, tree: Tree, checkpoint: Checkpoint, image: Path) -> SavedMachine:
        chain = [self.layer(c) for c in _from_root(tree, checkpoint)]
        return SavedMachine(
            emulator=self.foundation.emulator,
            size=self.foundation.size,
            root=self.foundation.root,
            overlay_template=self.foundation.overlay_template,
            memory=image,
            devices=chain[-1].devices,
            disk_layers=disk_chain(self.foundation.disk_template, [layer.disks for layer in chain]),
            nonce=chain[-1].nonce,
        )


def _from_root(tree: Tree, checkpoint: Checkpoint) -> list[Checkpoint]:
    path = list(tree.path(checkpoint.id))
    return path if path[0].parent is None else path[::-1]

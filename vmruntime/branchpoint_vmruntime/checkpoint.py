"""From what was captured to a checkpoint that is there whole: difference, files, record."""

import asyncio
import errno
import os
import secrets
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from branchpoint_vmruntime.capture import COPY_ALONE, COPY_THREADS, Capture, capture
from branchpoint_vmruntime.errors import (
    BranchpointError,
    CheckpointError,
    DamagedError,
    HostError,
    StorageError,
)
from branchpoint_vmruntime.lineage import (
    BranchName,
    Checkpoint,
    CheckpointCost,
    CheckpointId,
    CheckpointKind,
    SessionId,
)
from branchpoint_vmruntime.machine import Machine
from branchpoint_vmruntime.memory.dirty import dirty_runs, share_out, total_size
from branchpoint_vmruntime.memory.flat import sync_file
from branchpoint_vmruntime.memory.layer import differing_runs, layer_pieces, write_layer
from branchpoint_vmruntime.memory.sparse import bytes_on_disk
from branchpoint_vmruntime.session import Witness, nothing_known
from branchpoint_vmruntime.storage.digests import FileDigest, digest_of, write_digests
from branchpoint_vmruntime.store import MEMORY, Layer, LayerStore, MachineFacts
from branchpoint_vmruntime.testimony import hear

_SPARE_BYTES = 16 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)
# What a process may have no more of, whatever it opens.
_WANTING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
_UNTOUCHED = "what was there is as it was"
_VERIFY = f"{_UNTOUCHED}; `branchpoint verify` names what is damaged and all that needs it"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOrder:
    """What a new checkpoint is to be called, where it belongs, and who knows what executes."""

    session: SessionId
    parent: CheckpointId
    label: str
    note: str
    kind: CheckpointKind
    branch: BranchName
    witness: Witness = nothing_known


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A capture on its way to becoming a checkpoint. Publish it or discard it."""

    id: CheckpointId
    order: CheckpointOrder
    staged: Layer
    captured: Capture
    started_at: datetime
    started_s: float


def new_checkpoint_id() -> CheckpointId:
    """A fresh id: short enough to type the start of."""
    return CheckpointId(secrets.token_hex(6))


def require_space(folder: Path, machine: Machine) -> None:
    """StorageError if what the machine has written would not fit on the disk."""
    needed = total_size(dirty_runs(machine.pid, machine.spec.memory.path)) + _SPARE_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StorageError(
            f"the disk of {folder} has {free >> 20} MB free; this may need {needed >> 20} MB",
            hint="free some space there, or `%drop` a branch; nothing was changed",
        )


async def draft(
    store: LayerStore,
    machine: Machine,
    overlay_template: Path,
    order: CheckpointOrder,
    *,
    resume: bool,
) -> Draft:
    """Capture the machine. Whatever fails, it runs on and nothing is left behind."""
    started_s, started_at = time.monotonic(), datetime.now(UTC)
    checkpoint = new_checkpoint_id()
    staged = store.layer(checkpoint)
    try:
        staged = store.stage(checkpoint)
        captured = await capture(
            machine,
            staged,
            overlay_template,
            lambda: hear(order.witness, order.branch),
            resume=resume,
        )
    except BaseException as error:
        store.discard(staged)
        if isinstance(error, OSError):
            raise storage_error(error) from error
        raise
    return Draft(
        id=checkpoint,
        order=order,
        staged=staged,
        captured=captured,
        started_at=started_at,
        started_s=started_s,
    )


async def publish(
    store: LayerStore,
    pending: Draft,
    parent_image: Path,
    facts: MachineFacts,
    nonce: str,
) -> Checkpoint:
    """Write what differs from the parent's memory, put the folder in place. The caller records it.

    StorageError or CheckpointError, and nothing left behind, if that fails.
    """
    writing = time.monotonic()
    try:
        memory = await asyncio.to_thread(_write_memory, pending, parent_image)
        pending.staged.write_facts(facts, nonce)
        noting = time.monotonic()
        await asyncio.to_thread(write_digests, pending.staged, {MEMORY: memory.digest})
        hashed_ms = round(memory.waited_ms + 1000 * (time.monotonic() - noting), 3)
        layer = await asyncio.to_thread(store.publish, pending.staged, pending.id)
    except BaseException as error:
        store.discard(pending.staged)
        if isinstance(error, OSError):
            raise storage_error(error) from error
        raise
    captured, order = pending.captured, pending.order
    done = time.monotonic()
    cost = CheckpointCost(
        stopped_ms=round(captured.stopped_ms, 3),
        paused_ms=round(captured.paused_ms, 3),
        total_ms=round(1000 * (done - pending.started_s), 3),
        dirty_bytes=captured.dirty_bytes,
        memory_bytes=memory.digest.bytes,
        device_bytes=layer.devices.stat().st_size,
        disk_bytes=sum(bytes_on_disk(path) for path in layer.disks),
        shared_bytes=bytes_on_disk(captured.image),
        phases_ms=captured.phases_ms
        | {"write": round(1000 * (done - writing) - hashed_ms, 3), "hash": hashed_ms},
    )
    return Checkpoint(
        id=pending.id,
        session=order.session,
        parent=order.parent,
        label=order.label,
        note=order.note,
        kind=order.kind,
        branch=order.branch,
        created_at=pending.started_at,
        key=facts.key,
        cost=cost,
        moment=captured.moment,
    )


@dataclass(frozen=True, slots=True)
class _Memory:
    """What was written of a memory, and how long its digest took longer than the writing."""

    digest: FileDigest
    waited_ms: float


def _write_memory(pending: Draft, parent_image: Path) -> _Memory:
    captured = pending.captured
    with parent_image.open("rb") as parent:
        size = os.fstat(parent.fileno()).st_size
        parts = share_out(captured.runs, COPY_THREADS if len(captured.pages) > COPY_ALONE else 1)
        with ThreadPoolExecutor(len(parts), thread_name_prefix="compare") as threads:
            comparing = [
                threads.submit(differing_runs, part, captured.pages[start:], parent.fileno())
                for start, part in parts
            ]
        runs = [run for compared in comparing for run in compared.result()]
    # Of what is in memory, beside the writing: a pause holds the machine up until both are done.
    with ThreadPoolExecutor(1, thread_name_prefix="hash") as beside:
        hashing = beside.submit(digest_of, layer_pieces(size, runs))
        write_layer(pending.staged.memory, size, runs)
        sync_file(pending.staged.memory)
        written = time.monotonic()
        digest = hashing.result()
    return _Memory(digest, 1000 * (time.monotonic() - written))


def storage_error(error: OSError) -> StorageError | CheckpointError:
    """An error of the disk while a checkpoint was being written, in words."""
    if error.errno in _FULL:
        place = error.filename2 or error.filename
        said = f"the disk is full: there is no room for {place}" if place else "the disk is full"
        return StorageError(said, hint="free some space there; nothing was changed")
    return CheckpointError(
        f"the checkpoint could not be written: {os.strerror(error.errno or errno.EIO)}",
        hint="nothing of it was kept, and the machine runs on",
    )


def restore_error(
    error: OSError | DamagedError, checkpoint: Checkpoint, read_from: Sequence[Path]
) -> BranchpointError:
    """What went wrong while a machine was made of a checkpoint, in words.

    `read_from` are the folders of what it is made of. DamagedError if that cannot be read, else
    HostError: something that this process wanted beside it was not to be had.
    """
    named = f"checkpoint {(checkpoint.label or checkpoint.id)!r}"
    if isinstance(error, DamagedError):
        return DamagedError(f"{named} is damaged: {error}", hint=error.hint or _VERIFY)
    if error.errno in _FULL:
        return storage_error(error)
    name, why = error.filename, error.strerror or str(error)
    place = Path(os.fsdecode(name)) if isinstance(name, str | bytes | Path) else None
    said = why if place is None else f"{place}: {why}"
    # Without a name it is of files that are open: what is written to has nothing of its own yet.
    was_read = place is None or any(place.is_relative_to(folder) for folder in read_from)
    if was_read and error.errno not in _WANTING:
        return DamagedError(f"{named} cannot be read: {said}", hint=_VERIFY)
    return HostError(
        f"{named} could not be restored: {said}",
        hint=f"{_UNTOUCHED}; look at the disk it is on, who may use it, and how many files and"
        " processes this user may have",
    )

"""Flat images: every checkpoint's memory is right, whatever was done before; those in use stay."""

import asyncio
import shutil
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)
from tests.support.front_end import in_a_loop
from tests.unit.memory.memories import CONTENTS, PAGES, WRITES, filled, make_layer, written

from branchpoint_vmruntime.errors import DamagedError
from branchpoint_vmruntime.lineage import CheckpointId
from branchpoint_vmruntime.memory import flat
from branchpoint_vmruntime.memory.flat import KEEP_IDLE, FlatImages, MemoryLink

BASE = CheckpointId("base")


@dataclass(frozen=True)
class Lease:
    """An image as a machine holds it: open, so that it is seen whatever becomes of the name."""

    checkpoint: CheckpointId
    path: Path
    file: BinaryIO


class Lineage:
    """Checkpoints on disk, and what their memories are by plain bytes."""

    def __init__(self, folder: Path, base: bytes) -> None:
        self.folder = folder
        (folder / "layers").mkdir()
        (folder / "layers" / BASE).write_bytes(base)
        self.memories = {BASE: base}
        self.chains = {BASE: [MemoryLink(BASE, folder / "layers" / BASE)]}
        self.flats = FlatImages(folder / "flat")

    def add(self, parent: CheckpointId, writes: dict[int, int]) -> CheckpointId:
        """A checkpoint of a machine that woke from the parent and wrote."""
        child = CheckpointId(f"c{len(self.memories)}")
        layer = self.folder / "layers" / child
        make_layer(layer, self.memories[parent], writes)
        self.memories[child] = written(self.memories[parent], writes)
        self.chains[child] = [*self.chains[parent], MemoryLink(child, layer)]
        return child

    def add_line(self, length: int) -> list[CheckpointId]:
        """Checkpoints each the parent of the next, the first a child of the base."""
        line = [BASE]
        for number in range(length):
            line.append(self.add(line[-1], {number: 2}))
        return line[1:]

    async def lease(self, checkpoint: CheckpointId) -> Lease:
        """Lease as a machine does."""
        path = await self.flats.lease(self.chains[checkpoint])
        return Lease(checkpoint, path, path.open("rb"))

    def images(self) -> set[str]:
        """The checkpoints that have a flat image now."""
        return {path.stem for path in (self.folder / "flat").glob("*.mem")}


class FlatImagesMachine(RuleBasedStateMachine):
    """Any order of checkpoints, leases, head starts, discards and crashes."""

    checkpoints: Bundle[CheckpointId] = Bundle("checkpoints")
    leases: Bundle[Lease] = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="flat-"))
        self.runner = asyncio.Runner()
        self.held: list[Lease] = []

    @initialize(target=checkpoints, base=CONTENTS)
    def begin(self, base: list[int]) -> CheckpointId:
        self.lineage = Lineage(self.folder, filled(base))
        return BASE

    @rule(target=checkpoints, parent=checkpoints, writes=WRITES)
    def save(self, parent: CheckpointId, writes: dict[int, int]) -> CheckpointId:
        return self.lineage.add(parent, writes)

    @rule(target=leases, checkpoint=checkpoints)
    def lease(self, checkpoint: CheckpointId) -> Lease:
        made = self.runner.run(self.lineage.lease(checkpoint))
        self.held.append(made)
        return made

    @rule(lease=consumes(leases))
    def release(self, lease: Lease) -> None:
        # One taken before a crash ended with its machine.
        if lease in self.held:
            self.held.remove(lease)
            self.lineage.flats.release(lease.checkpoint)
        lease.file.close()

    @rule(wanted=st.lists(checkpoints, min_size=1, max_size=4))
    def prepare(self, wanted: list[CheckpointId]) -> None:
        async def prepare_all() -> None:
            chains = [self.lineage.chains[checkpoint] for checkpoint in wanted]
            await asyncio.gather(*map(self.lineage.flats.prepare, chains))

        self.runner.run(prepare_all())

    @rule(checkpoint=checkpoints)
    def discard(self, checkpoint: CheckpointId) -> None:
        self.lineage.flats.discard(checkpoint)

    @rule(checkpoint=checkpoints, half=st.binary(max_size=100))
    def crash(self, checkpoint: CheckpointId, half: bytes) -> None:
        (self.folder / "flat" / f"{checkpoint}.part").write_bytes(half)
        while self.held:
            self.held.pop().file.close()
        self.lineage.flats = FlatImages(self.folder / "flat")
        assert not list((self.folder / "flat").glob("*.part"))

    @invariant()
    def images_in_use_are_there_and_unchanged(self) -> None:
        for lease in self.held:
            lease.file.seek(0)
            memory = self.lineage.memories[lease.checkpoint]
            assert lease.file.read() == lease.path.read_bytes() == memory

    @invariant()
    def no_image_is_half_built(self) -> None:
        assert not list((self.folder / "flat").glob("*.part"))

    def teardown(self) -> None:
        self.runner.close()
        for lease in self.held:
            lease.file.close()
        shutil.rmtree(self.folder)


FlatImagesMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25)


class TestAnyOrder(FlatImagesMachine.TestCase):
    """The state machine, found by pytest."""


@pytest.fixture
def lineage(tmp_path: Path) -> Lineage:
    return Lineage(tmp_path, filled([1] * PAGES))


@in_a_loop
async def test_the_base_is_mapped_as_it_is(lineage: Lineage) -> None:
    assert await lineage.flats.lease(lineage.chains[BASE]) == lineage.chains[BASE][0].path


@in_a_loop
async def test_an_image_that_is_there_is_not_built_again(lineage: Lineage) -> None:
    [only] = lineage.add_line(1)
    first = await lineage.flats.prepare(lineage.chains[only])
    made_at = first.stat().st_mtime_ns
    assert (await lineage.flats.prepare(lineage.chains[only])).stat().st_mtime_ns == made_at


@in_a_loop
async def test_idle_images_do_not_pile_up_along_a_line(lineage: Lineage) -> None:
    for checkpoint in lineage.add_line(KEEP_IDLE + 5):
        await lineage.flats.prepare(lineage.chains[checkpoint])
        assert len(lineage.images()) <= KEEP_IDLE


@in_a_loop
async def test_the_image_of_a_parent_in_use_is_not_taken_over(lineage: Lineage) -> None:
    line = lineage.add_line(KEEP_IDLE + 3)
    held = [await lineage.lease(checkpoint) for checkpoint in line]
    assert lineage.images() == set(line)
    for lease in held:
        assert lease.file.read() == lineage.memories[lease.checkpoint]
        lease.file.close()


@in_a_loop
async def test_a_lease_that_fails_holds_nothing(lineage: Lineage) -> None:
    [only] = lineage.add_line(1)
    layer = lineage.chains[only][-1].path
    whole = layer.read_bytes()
    layer.write_bytes(whole[:-1])
    with pytest.raises(DamagedError):
        await lineage.flats.lease(lineage.chains[only])
    assert lineage.images() == set()
    layer.write_bytes(whole)
    await lineage.flats.prepare(lineage.chains[only])
    lineage.flats.discard(only)
    assert lineage.images() == set()


@in_a_loop
async def test_an_image_leased_twice_stays_until_released_twice(lineage: Lineage) -> None:
    [only] = lineage.add_line(1)
    for _ in range(2):
        (await lineage.lease(only)).file.close()
    lineage.flats.release(only)
    lineage.flats.discard(only)
    assert lineage.images() == {only}
    lineage.flats.release(only)
    assert lineage.images() == set()


class HeldCopy:
    """Stands in for `copy_sparse`: the first copy, once begun, waits to be let through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._copy = flat.copy_sparse
        self.begun = threading.Event()
        self.let_through = threading.Event()
        self.count = 0
        monkeypatch.setattr(flat, "copy_sparse", self.copy)

    def copy(self, source: Path, target: Path) -> bool:
        self.count += 1
        if self.count == 1:
            self.begun.set()
            self.let_through.wait(120)
        return self._copy(source, target)

    async def wait_begun(self) -> None:
        """Until the first copy has begun."""
        assert await asyncio.to_thread(self.begun.wait, 120)


@in_a_loop
async def test_an_image_given_up_while_it_was_made_for_nobody_does_not_stay(
    lineage: Lineage, monkeypatch: pytest.MonkeyPatch
) -> None:
    [only] = lineage.add_line(1)
    held = HeldCopy(monkeypatch)
    asking = asyncio.create_task(lineage.flats.lease(lineage.chains[only]))
    await held.wait_begun()
    asking.cancel()
    await asyncio.wait([asking])
    lineage.flats.discard(only)
    held.let_through.set()
    # All that is under way in threads ends first.
    await asyncio.get_running_loop().shutdown_default_executor()
    assert lineage.images() == set()


@in_a_loop
async def test_an_image_being_copied_from_is_not_taken_over(
    lineage: Lineage, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = lineage.add_line(KEEP_IDLE)
    for lease in [await lineage.lease(checkpoint) for checkpoint in line]:
        lease.file.close()
        lineage.flats.release(lease.checkpoint)
    parent = line[-1]
    child = lineage.add(parent, {0: 3})
    grandchild = lineage.add(lineage.add(parent, {1: 3}), {3: 3})
    held = HeldCopy(monkeypatch)
    # Two layers down from the parent's image, so a copy; the other, one down, would take it over.
    copying = asyncio.create_task(lineage.flats.prepare(lineage.chains[grandchild]))
    await held.wait_begun()
    image = await lineage.flats.prepare(lineage.chains[child])
    held.let_through.set()
    assert (await copying).read_bytes() == lineage.memories[grandchild]
    assert image.read_bytes() == lineage.memories[child]


@in_a_loop
async def test_a_build_whose_asker_was_called_off_does_not_spoil_the_next(
    lineage: Lineage, monkeypatch: pytest.MonkeyPatch
) -> None:
    [only] = lineage.add_line(1)
    held = HeldCopy(monkeypatch)
    first = asyncio.create_task(lineage.flats.lease(lineage.chains[only]))
    await held.wait_begun()
    first.cancel()
    await asyncio.wait([first])
    second = asyncio.create_task(lineage.lease(only))
    # Long enough for a second build, were there one, to begin beside the first.
    await asyncio.sleep(0.05)
    assert held.count == 1
    held.let_through.set()
    lease = await second
    assert lease.file.read() == lineage.memories[only]
    lease.file.close()

"""Own, shared and apparent sizes: three things, each counted as it is on the disk."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.unit.storage.stores import MEMORY_BYTES, SmallStore, small_home

from branchpoint_vmruntime.lineage import CheckpointId, SessionId
from branchpoint_vmruntime.storage.sizes import (
    Sizes,
    checkpoint_sizes,
    layer_of,
    on_disk,
    own_sizes,
)


@pytest.fixture
def store(tmp_path: Path) -> Generator[SmallStore]:
    """One chain: base0000, a, b."""
    made = SmallStore(small_home(tmp_path))
    made.base()
    made.session()
    made.checkpoint("a")
    made.checkpoint("b", "a")
    yield made
    made.journal.close()


def held(path: Path) -> int:
    return sum(each.stat().st_size for each in path.iterdir())


def test_own_is_what_a_layers_files_take_and_shared_what_its_ancestors_do(
    store: SmallStore,
) -> None:
    there = store.journal.checkpoints(SessionId("s-1"))
    sizes = checkpoint_sizes(store.home, there)
    base, a, b = (sizes[each.id] for each in there)
    blocks = sum(f.stat().st_blocks for f in layer_of(store.home, there[2]).folder.iterdir())
    assert b.own == blocks * 512 > 0
    assert base.shared == 0
    assert a.shared == base.own
    assert b.shared == base.own + a.own
    assert own_sizes(store.home, there) == {each.id: sizes[each.id].own for each in there}


def test_apparent_is_a_memory_in_full_with_all_else_of_its_chain(store: SmallStore) -> None:
    there = store.journal.checkpoints(SessionId("s-1"))
    folders = [layer_of(store.home, each).folder for each in there]
    besides = [held(folder) - (folder / "memory").stat().st_size for folder in folders]
    sizes = checkpoint_sizes(store.home, there)
    assert [sizes[each.id].apparent for each in there] == [
        MEMORY_BYTES + sum(besides[: place + 1]) for place in range(3)
    ]


def test_holes_are_not_own_but_apparent(store: SmallStore) -> None:
    memory = layer_of(store.home, store.journal.checkpoints(SessionId("s-1"))[0]).memory
    with memory.open("r+b") as file:
        file.truncate(0)
        file.truncate(MEMORY_BYTES)
    sizes = checkpoint_sizes(store.home, store.journal.checkpoints(SessionId("s-1")))
    assert sizes[CheckpointId("base0000")].own < MEMORY_BYTES
    assert sizes[CheckpointId("base0000")].apparent >= MEMORY_BYTES


def test_what_is_gone_takes_nothing(store: SmallStore, tmp_path: Path) -> None:
    there = store.journal.checkpoints(SessionId("s-1"))
    folder = layer_of(store.home, there[2]).folder
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert checkpoint_sizes(store.home, there)[there[2].id].own == 0
    assert on_disk(tmp_path / "nothing") == 0
    assert Sizes() == Sizes(own=0, shared=0, apparent=0)


def test_a_link_takes_what_it_is_and_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"7" * 65536)
    (tmp_path / "folder").mkdir()
    before = on_disk(tmp_path / "folder")
    (tmp_path / "folder" / "link").symlink_to(tmp_path)
    assert on_disk(tmp_path / "folder") < before + 65536


def test_what_another_session_links_too_is_shared_and_frees_nothing(store: SmallStore) -> None:
    there = store.journal.checkpoints(SessionId("s-1"))
    before = checkpoint_sizes(store.home, there)[CheckpointId("b")]
    memory = layer_of(store.home, there[2]).memory
    taken = memory.stat().st_blocks * 512
    (store.home.layers / "elsewhere").hardlink_to(memory)
    after = checkpoint_sizes(store.home, there)[CheckpointId("b")]
    assert (after.own, after.shared) == (before.own - taken, before.shared + taken)
    assert after.apparent == before.apparent
    assert own_sizes(store.home, there)[CheckpointId("b")] == after.own

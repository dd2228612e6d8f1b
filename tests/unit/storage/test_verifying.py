"""Damage is found, named, and told together with all that cannot do without what is damaged."""

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.front_end import in_a_loop
from tests.unit.storage.layers import FACTS_HERE, made_layer
from tests.unit.storage.stores import SmallStore, made_image, memory_layer, small_home

from branchpoint_vmruntime.errors import UnknownNameError
from branchpoint_vmruntime.image.guest_image import FILES, MANIFEST
from branchpoint_vmruntime.lineage import SessionId
from branchpoint_vmruntime.storage.digests import DIGESTS, Damage
from branchpoint_vmruntime.storage.verifying import verify


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Generator[SmallStore]:
    """Two sessions on one base, each test leaves it as it was.

    base0000 ─ a ─ b ─ c
             │   └ d
             └ e, of another session
    """
    made = SmallStore(small_home(tmp_path_factory.mktemp("verified")))
    made.base()
    made.session()
    made.session("s-2")
    for name, parent in (("a", "base0000"), ("b", "a"), ("c", "b"), ("d", "a")):
        made.checkpoint(name, parent)
    made.checkpoint("e", session="s-2")
    yield made
    made.journal.close()


@pytest.fixture
def made(tmp_path: Path) -> Generator[SmallStore]:
    """A base, and a session without checkpoints."""
    made = SmallStore(small_home(tmp_path))
    made.base()
    made.session()
    yield made
    made.journal.close()


NEEDED_BY = {"base0000": "abcde", "a": "bcd", "b": "c", "c": "", "d": "", "e": ""}


@in_a_loop
async def test_a_home_in_which_nothing_is_damaged_is_whole(made: SmallStore) -> None:
    made.checkpoint("a")
    found = await verify(made.home)
    assert found.whole
    assert found.checkpoints == 2
    assert found.unverifiable == ()
    assert found.strays == ()
    assert found.bytes > 1 << 20


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=10
)
@given(data=st.data())
def test_any_flipped_byte_is_found_with_all_that_needs_it(
    store: SmallStore, data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(sorted(store.home.layers.glob("*/*/*"))))
    before = path.read_bytes()
    place = data.draw(st.integers(0, len(before) - 1))
    flipped = bytearray(before)
    flipped[place] ^= data.draw(st.integers(1, 255))
    try:
        path.write_bytes(flipped)
        (damaged,) = asyncio.run(verify(store.home)).damaged
    finally:
        path.write_bytes(before)
    assert damaged.checkpoint.id == path.parent.name
    assert [damage.path for damage in damaged.damages] == [path]
    assert {each.id for each in damaged.needed_by} == set(NEEDED_BY[path.parent.name])
    assert "none of these can be restored" in damaged.advice


@in_a_loop
async def test_a_session_alone_is_looked_at_with_the_base_under_it(store: SmallStore) -> None:
    found = await verify(store.home, SessionId("s-2"))
    assert found.checkpoints == 2
    with pytest.raises(UnknownNameError, match="s-9"):
        await verify(store.home, SessionId("s-9"))


@in_a_loop
async def test_a_record_without_files_is_damage_and_files_without_a_record_are_strays(
    made: SmallStore,
) -> None:
    gone = made.checkpoint("a")
    made.checkpoint("b", "a")
    folder = made.home.layers / "s-1"
    (folder / "a").rename(folder / "strange")
    (folder / "under-way.part").mkdir()
    found = await verify(made.home)
    (damaged,) = found.damaged
    assert damaged.checkpoint == gone
    assert [each.id for each in damaged.needed_by] == ["b"]
    assert found.strays == (folder / "strange",)


@in_a_loop
async def test_layers_of_earlier_versions_are_not_verifiable_and_whole(made: SmallStore) -> None:
    old = made.checkpoint("a")
    (made.home.layers / "s-1" / "a" / DIGESTS).unlink()
    found = await verify(made.home)
    assert found.whole
    assert found.unverifiable == (old,)


@in_a_loop
async def test_of_a_layer_without_digests_the_table_and_the_disks_are_looked_at(
    made: SmallStore,
) -> None:
    made.checkpoint("a")
    folder = made.home.layers / "s-1" / "a"
    (folder / DIGESTS).unlink()
    memory = bytearray((folder / "memory").read_bytes())
    memory[40] ^= 1
    (folder / "memory").write_bytes(memory)
    (folder / "disk-000.qcow2").write_bytes(b"QFI\xfb and nothing that a disk would be")
    (damaged,) = (await verify(made.home)).damaged
    assert [damage.path.name for damage in damaged.damages] == ["memory", "disk-000.qcow2"]
    assert "checksum" in damaged.damages[0].what
    assert "disk cannot be read" in damaged.damages[1].what


@in_a_loop
async def test_books_that_are_not_whole_are_named(made: SmallStore) -> None:
    made.journal.close()
    pages = bytearray(made.home.database.read_bytes())
    pages[4096 : 4096 + 512] = b"\xff" * 512
    made.home.database.write_bytes(pages)
    found = await verify(made.home)
    assert not found.whole
    assert [each.path for each in found.books] == [made.home.database]


@in_a_loop
async def test_an_image_that_is_missing_is_named_with_all_that_stands_on_it(
    store: SmallStore,
) -> None:
    folder = store.home.images / FACTS_HERE.image
    away = folder.rename(folder.with_name("away"))
    try:
        found = await verify(store.home)
        of_one = await verify(store.home, SessionId("s-2"))
    finally:
        away.rename(folder)
    assert not found.whole
    assert found.damaged == ()
    (image,) = found.images
    assert image.damages == (Damage(path=folder, what="it is missing"),)
    assert [each.id for each in image.needed_by] == ["base0000", "a", "e", "b", "d", "c"]
    assert "--with-image" in image.advice
    assert "away" not in image.advice
    assert of_one.images == found.images


@pytest.mark.parametrize("name", FILES)
@in_a_loop
async def test_a_flipped_byte_of_an_image_is_found_with_all_that_stands_on_it(
    store: SmallStore, name: str
) -> None:
    path = store.home.images / FACTS_HERE.image / name
    before = path.read_bytes()
    try:
        path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        found = await verify(store.home)
    finally:
        path.write_bytes(before)
    assert found.damaged == ()
    (image,) = found.images
    assert image.damages == (Damage(path=path, what="its bytes are not those that were written"),)
    assert len(image.needed_by) == 6
    assert f"Move {path.parent} away" in image.advice


@pytest.mark.parametrize("text", ["", "[]", '{"digest": "another"}'])
@in_a_loop
async def test_an_image_whose_manifest_cannot_be_read_is_damaged(
    store: SmallStore, text: str
) -> None:
    path = store.home.images / FACTS_HERE.image / MANIFEST
    before = path.read_text()
    try:
        path.write_text(text)
        (image,) = (await verify(store.home)).images
    finally:
        path.write_text(before)
    assert [damage.path for damage in image.damages] == [path]


@in_a_loop
async def test_an_image_that_was_made_anew_and_otherwise_is_told_with_what_needs_the_former(
    made: SmallStore,
) -> None:
    made.base("noted000", key="another")
    made.base("unneeded", key="a third")
    made.base("unnoted0", key="as before it was noted", image={})
    for name, parent in (("a", "noted000"), ("b", "a"), ("c", "unnoted0")):
        made.checkpoint(name, parent)
    root = made_image(made.home, root=b"with newer packages").root
    found = await verify(made.home)
    assert not found.whole
    (image,) = found.images
    assert [damage.path for damage in image.damages] == [root]
    assert "made anew" in image.damages[0].what
    assert [each.id for each in image.needed_by] == ["noted000", "a", "b"]


@in_a_loop
async def test_who_watches_hears_how_far_it_is(store: SmallStore) -> None:
    heard: list[tuple[int, int]] = []
    await verify(store.home, advance=lambda done, of: heard.append((done, of)))
    assert heard == [(number, 7) for number in range(1, 8)]


@in_a_loop
async def test_a_layer_of_a_memory_of_another_size_is_damaged(
    made: SmallStore, tmp_path: Path
) -> None:
    made.checkpoint("a")
    folder = made.home.layers / "base"
    (folder / "base0000").rename(folder / "other")
    made_layer(folder, "base0000", memory=memory_layer(tmp_path))
    (damaged,) = (await verify(made.home)).damaged
    assert damaged.checkpoint.id == "base0000"
    assert "not 1048576" in damaged.damages[0].what

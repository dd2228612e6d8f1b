"""What a home no longer needs goes, and nothing else; a dry run says the same, and does nothing."""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.storage.stores import SmallStore, small_home

from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.recipe import Recipe
from branchpoint_vmruntime.lineage import (
    BranchState,
    Checkpoint,
    CheckpointId,
    CheckpointKind,
    SessionId,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.removal import remove_session
from branchpoint_vmruntime.storage import collecting
from branchpoint_vmruntime.storage.collecting import collect
from branchpoint_vmruntime.storage.collection import Collection, Waste
from branchpoint_vmruntime.storage.foundations import Foundations
from branchpoint_vmruntime.storage.keeping import remember
from branchpoint_vmruntime.storage.retention import StoreBudgets
from branchpoint_vmruntime.storage.verifying import verify
from branchpoint_vmruntime.store import FACTS

A_WEEK = StoreBudgets(age_s=7 * 86400.0)
ONE = StoreBudgets(checkpoints=1)


class Present(Foundations):
    """What the installation would make now is what the test says."""

    def __init__(self, home: Home, *usable: str, default: bool = True) -> None:
        super().__init__(home, qemu="QEMU 10.0.2 (0a1b2c)", guest_sources=[])
        self._ids = set(usable)
        self._is_default = default

    def usable(self, bases: Iterable[Checkpoint]) -> set[CheckpointId]:
        return {base.id for base in bases if base.id in self._ids}

    def is_default(self, base: Checkpoint) -> bool:
        return self._is_default


@pytest.fixture
def store(tmp_path: Path) -> Generator[SmallStore]:
    """A base, and a closed session whose branch stands on `b`, with one safety checkpoint.

    base0000 ─ a ─ b
                 └ left
    """
    made = SmallStore(small_home(tmp_path))
    made.base()
    made.session()
    made.checkpoint("a")
    made.checkpoint("b", "a", advance=True)
    made.checkpoint("left", "a", kind=CheckpointKind.SAFETY)
    yield made
    made.journal.close()


async def collected(
    store: SmallStore,
    budgets: StoreBudgets | None = None,
    *,
    usable: str = "base0000",
    dry_run: bool = False,
    default: bool = True,
) -> Collection:
    present = Present(store.home, usable, default=default)
    return await collect(store.home, budgets=budgets, dry_run=dry_run, foundations=present)


def named(found: Collection, kind: Waste) -> list[str]:
    return [removal.name for removal in found.removals if removal.kind is kind]


def everything(home: Home) -> dict[str, int]:
    """All that is on the disk, but for what SQLite keeps beside its file."""
    return {
        str(path.relative_to(home.root)): path.lstat().st_size
        for path in home.root.rglob("*")
        if not path.name.startswith("lineage.db") and path.name != ".lock"
    }


@in_a_loop
async def test_a_closed_session_is_brought_within_the_budgets_it_was_opened_with(
    store: SmallStore,
) -> None:
    remember(store.home.session("s-1"), StoreBudgets(checkpoints=2))
    found = await collected(store)
    assert named(found, Waste.CHECKPOINT) == ["left"]
    assert {p.name for p in (store.home.layers / "s-1").iterdir()} == {"a", "b"}
    assert {c.id for c in store.journal.checkpoints(store.journal.sessions()[0].id)} == {
        "base0000",
        "a",
        "b",
    }


@in_a_loop
async def test_a_budget_that_is_given_overrides_the_sessions_own(store: SmallStore) -> None:
    remember(store.home.session("s-1"), StoreBudgets(checkpoints=2))
    assert named(await collected(store, StoreBudgets(checkpoints=3)), Waste.CHECKPOINT) == []


@in_a_loop
async def test_what_a_branch_stands_on_or_somebody_pinned_stays_and_the_rest_is_told(
    store: SmallStore,
) -> None:
    store.journal.pin(CheckpointId("left"), pinned=True)
    found = await collected(store, ONE)
    assert named(found, Waste.CHECKPOINT) == []
    (stay,) = found.stays
    assert {v.checkpoint.id: v.why for v in stay.kept} == {
        "a": "'left' descends from it",
        "b": "branch main stands on it",
        "left": "it is pinned",
    }
    assert stay.unmet == ("3 checkpoints are left, and the budget is 1",)


@in_a_loop
async def test_a_dry_run_says_what_a_run_does_and_touches_nothing(store: SmallStore) -> None:
    store.base("older000", key="before")
    store.session("s-2", head="older000")
    (store.home.layers / "s-1" / "half.part").mkdir()
    (store.home.flat / "s-1").mkdir()
    (store.home.flat / "s-1" / "a.mem").write_bytes(b"memory")
    (store.home.cache / "apt-host").mkdir()
    before = everything(store.home)
    dry = await collected(store, ONE, dry_run=True)
    assert everything(store.home) == before
    assert dry.dry
    real = await collected(store, ONE)
    assert not real.dry
    assert [asdict(each) for each in dry.removals] == [asdict(each) for each in real.removals]
    assert {removal.kind for removal in real.removals} == {
        Waste.CHECKPOINT,
        Waste.BASE,
        Waste.STRAY,
        Waste.FLAT,
        Waste.CACHE,
    }
    assert real.freed_bytes == sum(removal.bytes for removal in real.removals) > 0
    assert not any(removal.path.exists() for removal in real.removals)


@pytest.mark.parametrize(
    ("lends", "going"),
    [("nothing more", {"b", "a"}), ("c", {"c", "b", "a"}), ("d", {"d", "c", "left"})],
)
@in_a_loop
async def test_a_dry_run_says_of_sessions_that_stand_on_each_other_what_a_run_does(
    store: SmallStore, lends: str, going: set[str]
) -> None:
    store.session("s-2")
    if lends in ("c", "d"):
        store.checkpoint("c", "b", session="s-2")
    if lends == "d":
        # The lender's own again, on what the borrower saved.
        store.checkpoint("d", "c", kind=CheckpointKind.SAFETY)
    else:
        (borrower,) = store.journal.branches(SessionId("s-2"))
        store.journal.put_branch(replace(borrower, head=CheckpointId("b")))
        remove_session(store.home, "s-1")
        store.journal.put_branch(borrower)
    before, records = everything(store.home), store.journal.every_checkpoint()
    dry = await collected(store, A_WEEK, dry_run=True)
    assert (everything(store.home), store.journal.every_checkpoint()) == (before, records)
    real = await collected(store, A_WEEK)
    assert [asdict(each) for each in dry.removals] == [asdict(each) for each in real.removals]
    assert set(named(real, Waste.CHECKPOINT)) == going
    assert {it.id for it in records} - {it.id for it in store.journal.every_checkpoint()} == going
    assert dry.stays == real.stays


@in_a_loop
async def test_a_second_collection_finds_nothing_more(store: SmallStore) -> None:
    store.base("older000", key="before")
    await collected(store, ONE)
    assert (await collected(store, ONE)).removals == ()
    assert (await verify(store.home)).whole


@in_a_loop
async def test_an_old_base_that_something_descends_from_stays(store: SmallStore) -> None:
    store.base("newer000")
    found = await collected(store, usable="newer000")
    assert named(found, Waste.BASE) == []


@in_a_loop
async def test_an_old_base_goes_with_the_last_that_descends_from_it(store: SmallStore) -> None:
    store.base("newer000")
    main = store.journal.branches(store.journal.sessions()[0].id)[0]
    store.journal.put_branch(replace(main, state=BranchState.DROPPED))
    found = await collected(store, A_WEEK, usable="newer000")
    assert named(found, Waste.CHECKPOINT) == ["left", "b", "a"]
    assert named(found, Waste.BASE) == ["base0000"]


@in_a_loop
async def test_a_branch_that_never_left_an_old_base_is_let_go_with_it(tmp_path: Path) -> None:
    made = SmallStore(small_home(tmp_path))
    made.base()
    made.session()
    made.base("newer000")
    found = await collected(made, usable="newer000")
    assert named(found, Waste.BASE) == ["base0000"]
    (main,) = made.journal.branches(made.journal.sessions()[0].id)
    assert main.state is BranchState.DROPPED
    made.journal.close()


@in_a_loop
async def test_a_base_that_a_new_machine_would_fork_from_stays(tmp_path: Path) -> None:
    made = SmallStore(small_home(tmp_path))
    made.base()
    assert named(await collected(made), Waste.BASE) == []
    assert named(await collected(made, default=False), Waste.BASE) == ["base0000"]
    made.journal.close()


@in_a_loop
async def test_an_open_session_is_asked_to_remove_its_own(
    store: SmallStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Owner:
        """Removes what it is asked for, but for one."""

        async def remove(self, ids: list[str]) -> list[Checkpoint]:
            asked.extend(ids)
            return [c for c in there if c.id in ids[:1]]

    @asynccontextmanager
    async def control(_socket: Path) -> AsyncGenerator[Owner]:
        yield Owner()

    monkeypatch.setattr(collecting, "SessionControl", control)
    store.checkpoint("other", "a", kind=CheckpointKind.SAFETY)
    there = store.journal.every_checkpoint()
    with locked(store.home.layers / "s-1", wait=False):
        dry = await collected(store, ONE, dry_run=True)
        assert asked == []
        found = await collected(store, ONE)
    assert sorted(asked) == ["left", "other"]
    assert sorted(named(dry, Waste.CHECKPOINT)) == ["left", "other"]
    assert named(found, Waste.CHECKPOINT) == asked[:1]
    (left,) = found.left
    assert f"keeps {asked[1]}" in left.why


@in_a_loop
async def test_an_open_session_whose_owner_does_not_answer_is_left_and_told(
    store: SmallStore,
) -> None:
    with locked(store.home.layers / "s-1", wait=False):
        found = await collected(store, ONE)
    assert named(found, Waste.CHECKPOINT) == []
    assert [left.name for left in found.left] == ["/home/me/s-1.ipynb"]
    assert (store.home.layers / "s-1" / "left").exists()


@in_a_loop
async def test_folders_of_sessions_that_are_on_no_record_go(store: SmallStore) -> None:
    for place in (store.home.layers, store.home.live, store.home.flat):
        (place / "forgotten").mkdir()
    store.home.session("forgotten").mkdir(parents=True)
    (store.home.live / "boot-1234").mkdir()
    found = await collected(store)
    assert sorted(named(found, Waste.STRAY)) == ["boot-1234", *["forgotten"] * 4]


def an_image(home: Home, name: str, *, age_s: float = 7200.0) -> Path:
    """A folder as images have it, made some time ago."""
    folder = home.images / name
    folder.mkdir(exist_ok=True)
    (folder / "root.ext4").write_bytes(b"root")
    then = time.time() - age_s
    os.utime(folder, (then, then))
    return folder


@in_a_loop
async def test_while_a_base_is_booted_bases_and_what_it_may_stand_on_are_left_alone(
    store: SmallStore,
) -> None:
    store.base("older000", key="before")
    an_image(store.home, "booted")
    with locked(store.home.layers, wait=False):
        found = await collected(store)
    assert named(found, Waste.BASE) == named(found, Waste.IMAGE) == []
    assert [left.name for left in found.left] == ["base checkpoints", "images"]


@in_a_loop
async def test_images_that_no_base_stands_on_go_but_for_the_default_and_the_youngest(
    store: SmallStore,
) -> None:
    an_image(store.home, "d1g357")
    an_image(store.home, "superseded")
    an_image(store.home, Recipe.default().digest)
    an_image(store.home, "fresh", age_s=60.0)
    an_image(store.home, ".fresh.1234")
    found = await collected(store)
    assert named(found, Waste.IMAGE) == [".fresh.1234", "superseded"]


@in_a_loop
async def test_while_it_cannot_be_read_what_a_base_stands_on_no_image_goes(
    store: SmallStore,
) -> None:
    an_image(store.home, "superseded")
    an_image(store.home, ".half.1234")
    (store.home.layers / "base" / "base0000" / FACTS).write_bytes(b"\0")
    found = await collected(store)
    assert named(found, Waste.IMAGE) == [".half.1234"]
    (left,) = found.left
    assert left.name == "images"
    assert "base base0000" in left.why
    assert "branchpoint verify" in left.why


@in_a_loop
async def test_images_that_are_another_homes_are_left_alone(
    store: SmallStore, tmp_path: Path
) -> None:
    theirs = small_home(tmp_path / "theirs")
    kept = an_image(theirs, "superseded")
    shutil.rmtree(store.home.images)
    store.home.images.symlink_to(theirs.images)
    found = await collected(store)
    assert kept.exists()
    assert [left.name for left in found.left] == ["images"]


@in_a_loop
async def test_what_was_found_out_of_the_host_stays_in_the_cache(store: SmallStore) -> None:
    (store.home.cache / "accelerator.json").write_text("{}")
    (store.home.cache / "apt-bookworm").mkdir()
    found = await collected(store)
    assert "apt-bookworm" in named(found, Waste.CACHE)
    assert (store.home.cache / "accelerator.json").exists()


class KilledError(BaseException):
    """Stands in for a signal."""


@pytest.mark.parametrize("after", range(7))
def test_killed_at_any_step_it_leaves_a_whole_store_and_the_next_one_finishes(
    store: SmallStore, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    store.base("older000", key="before")
    store.session("s-2", head="older000")
    (store.home.layers / "s-1" / "half.part").mkdir()
    steps = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps > after:
                raise KilledError
            return real(*args, **kwargs)

        return step

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", counted(shutil.rmtree))
        patched.setattr(Journal, "remove_checkpoint", counted(Journal.remove_checkpoint))
        patched.setattr(Journal, "put_branches", counted(Journal.put_branches))
        with pytest.raises(KilledError):
            asyncio.run(collected(store, StoreBudgets(checkpoints=2)))
    assert asyncio.run(verify(store.home)).whole
    asyncio.run(collected(store, StoreBudgets(checkpoints=2)))
    found = asyncio.run(verify(store.home))
    assert found.whole
    assert found.strays == ()
    assert {p.name for p in (store.home.layers / "s-1").iterdir()} == {"a", "b"}
    assert {p.name for p in (store.home.layers / "base").iterdir()} == {"base0000"}

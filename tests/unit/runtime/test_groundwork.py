"""What sessions stand on is made once, when it is first needed, and the waiting is told of."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from tests.support.fake_workshop import BASE
from tests.support.front_end import in_a_loop
from tests.unit.runtime.studio import FACTS

from branchpoint_vmruntime import groundwork
from branchpoint_vmruntime.base import base_key, configure, first_boot_error
from branchpoint_vmruntime.errors import (
    GuestSilentError,
    HostError,
    ImageBuildError,
    MachineStartError,
)
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.foundation import Foundation
from branchpoint_vmruntime.groundwork import base_for, bases, image_for
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.guest_image import DISK, KERNEL, ROOT
from branchpoint_vmruntime.image.progress import Progress
from branchpoint_vmruntime.image.recipe import Recipe
from branchpoint_vmruntime.image.wanted import ImageSpec
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointId
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.machine import Machine
from branchpoint_vmruntime.results import CommandResult
from branchpoint_vmruntime.spec import Emulator, MachineSize
from branchpoint_vmruntime.store import LayerStore
from branchpoint_vmruntime.tools import Tools

TOOLS = cast("Tools", None)
FILES = {KERNEL: "a kernel", ROOT: "a root", DISK: "a disk"}


class Heard:
    """A progress that keeps what it hears, and in which thread."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.threads: set[int] = set()

    def step(self, title: str) -> None:
        """Keep it."""
        self._keep(title)

    def advance(self, fraction: float) -> None:
        """Keep it."""
        self._keep(f"{fraction:.1f}")

    def done(self, summary: str) -> None:
        """Keep it."""
        self._keep(summary)

    def _keep(self, words: str) -> None:
        self.said.append(words)
        self.threads.add(threading.get_ident())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home", tmp_path / "run")
    made.ensure()
    return made


@pytest.fixture
def foundation() -> Foundation:
    nowhere = Path("/nonexistent")
    return Foundation(
        emulator=Emulator(argv=("qemu",), accelerator="tcg"),
        size=MachineSize(),
        kernel=nowhere,
        initramfs=nowhere,
        initramfs_digest="1n1t",
        root=nowhere,
        disk_template=nowhere,
        overlay_template=nowhere,
        facts=FACTS,
    )


@in_a_loop
async def test_the_default_image_takes_a_set_up(home: Home) -> None:
    with pytest.raises(HostError) as told:
        await image_for(home, ImageSpec(), TOOLS, Heard())
    assert "branchpoint setup" in told.value.hint


@in_a_loop
async def test_another_image_is_built_beside_the_loop_which_hears_how_far_it_is(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Recipe] = []

    def build(_home: Home, recipe: Recipe, _tools: Tools, progress: Progress) -> None:
        built.append(recipe)
        assert threading.current_thread() is not threading.main_thread()
        progress.step("Debian packages")
        progress.advance(0.5)
        progress.done("4 packages")

    monkeypatch.setattr(groundwork, "ensure_image", build)
    heard = Heard()
    await image_for(home, ImageSpec.of(debian=["graphviz"]), TOOLS, heard)
    await asyncio.sleep(0)
    assert [recipe.debian for recipe in built] == [("graphviz",)]
    assert heard.said == ["Debian packages", "0.5", "4 packages"]
    assert heard.threads == {threading.get_ident()}


@in_a_loop
async def test_an_image_that_cannot_be_built_is_told_as_it_is(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*_: object) -> None:
        raise ImageBuildError("Debian has no package grafviz")

    monkeypatch.setattr(groundwork, "ensure_image", build)
    with pytest.raises(ImageBuildError, match="grafviz"):
        await image_for(home, ImageSpec.of(debian=["grafviz"]), TOOLS, Heard())


@in_a_loop
async def test_one_first_boot_is_enough_and_the_next_waits_for_it_and_nothing_else_does(
    home: Home, foundation: Foundation, monkeypatch: pytest.MonkeyPatch
) -> None:
    boots: list[Path] = []

    async def boot(store: LayerStore, of: Foundation, work: Path) -> Checkpoint:
        boots.append(work)
        staged = store.stage(BASE.id)
        staged.memory.write_bytes(b"\0")
        staged.write_facts(of.facts, "nonce")
        store.publish(staged, BASE.id)
        return replace(BASE, key=base_key(of))

    monkeypatch.setattr(groundwork, "make_base", boot)
    first, second = Heard(), Heard()
    with Journal.open(home.database) as journal:
        with locked(home.layers, wait=True):
            waiting = asyncio.create_task(base_for(home, journal, foundation, first))
            while not first.said:  # noqa: ASYNC110 (it is this loop that is to go on)
                await asyncio.sleep(0.01)
            assert first.said == ["waiting for another first boot"]
            assert boots == []
        made = await waiting
        assert await base_for(home, journal, foundation, second) == made
    assert len(boots) == 1
    assert "first boot of its machines" in first.said
    assert second.said == []
    assert bases(home).layer(made.id).memory.exists()


@in_a_loop
async def test_one_first_boot_for_an_image_that_was_made_anew_and_came_out_otherwise(
    home: Home, foundation: Foundation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groundwork, "make_base", Boots("ab"))
    assert await started_from(home, replace(foundation, image_files=FILES)) == "a"
    anew = replace(foundation, image_files={**FILES, ROOT: "another"})
    assert await started_from(home, anew) == "b"
    assert await started_from(home, anew) == "b"


@in_a_loop
async def test_a_base_in_which_the_image_is_not_noted_is_not_compared_with_it(
    home: Home, foundation: Foundation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groundwork, "make_base", Boots("ab"))
    assert await started_from(home, foundation) == "a"
    assert await started_from(home, replace(foundation, image_files=FILES)) == "a"


class Boots:
    """Makes bases by the names it is given, in which it is noted what the image came out as."""

    def __init__(self, names: str) -> None:
        self._names = iter(names)

    async def __call__(self, store: LayerStore, of: Foundation, work: Path) -> Checkpoint:
        """Make the next."""
        name = CheckpointId(next(self._names))
        staged = store.stage(name)
        staged.memory.write_bytes(b"\0")
        staged.write_facts(of.facts, "nonce")
        if of.image_files:
            staged.note_image(of.image_files)
        store.publish(staged, name)
        return replace(BASE, id=name, key=base_key(of))


async def started_from(home: Home, foundation: Foundation) -> CheckpointId:
    """The base that machines of a foundation start from."""
    with Journal.open(home.database) as journal:
        return (await base_for(home, journal, foundation, Heard())).id


class Configured:
    """A machine whose dpkg has a package that cannot be set up, or none."""

    def __init__(self, failing: str) -> None:
        self._failing = failing

    async def execute(self, argv: tuple[str, ...], *, timeout_s: float) -> CommandResult:
        """Say what dpkg says."""
        assert argv[-2:] == ("--configure", "-a")
        said = f"Errors were encountered while processing:\n {self._failing}"
        failed = bool(self._failing)
        return CommandResult(status=int(failed), stdout="", stderr=said if failed else "")


@in_a_loop
async def test_a_package_that_cannot_set_itself_up_is_named() -> None:
    await configure(cast("Machine", Configured("")))
    with pytest.raises(MachineStartError, match="postgresql") as told:
        await configure(cast("Machine", Configured("postgresql")))
    assert "`image`" in told.value.hint


def test_a_first_boot_that_is_never_done_is_not_told_to_go_back_to_a_checkpoint(
    tmp_path: Path,
) -> None:
    console = tmp_path / "console.log"
    console.write_text("the last the guest said")
    error = first_boot_error(GuestSilentError("boot", 300, console), console)
    assert str(error) == (
        "the first boot did not succeed: the guest did not answer within 300 s\n"
        "the last the guest said"
    )
    assert "rollback" not in error.hint
    assert "try again" in error.hint

"""Packages are baked into where fresh machines start, or nothing changes and nothing is left."""

import asyncio
import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.fake_workshop import BASE, FULL, FakeWorkshop, Office, office, snapshot
from tests.support.front_end import in_a_loop
from tests.support.packages import Index
from tests.support.web_files import web_files

from branchpoint_kernel.returning import way_back
from branchpoint_vmruntime.branch import Live
from branchpoint_vmruntime.errors import (
    ImageBuildError,
    IncompatibleError,
    RefusedError,
    StorageError,
    UsageError,
)
from branchpoint_vmruntime.incarnation import Identity
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointId, CheckpointKind
from branchpoint_vmruntime.lineage.tree import Tree
from branchpoint_vmruntime.outside.facts import Outfit, SecretSource, SecretSpec
from branchpoint_vmruntime.results import CommandResult

EVERYDAY = {"pip": "26.0", "numpy": "2.4.1"}
MISSING = "nowhere"


@dataclass(eq=False)
class PipWorkshop(FakeWorkshop):
    """Its machines have packages, those of the checkpoint they woke from, and a pip."""

    packages: dict[CheckpointId, dict[str, str]] = field(
        default_factory=lambda: {BASE.id: dict(EVERYDAY)}
    )
    in_machines: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    direct: frozenset[str] = frozenset()
    refuses: bool = False

    async def wake(
        self, tree: Tree, checkpoint: Checkpoint, identity: Identity, *, reseed: bool
    ) -> Live:
        """A machine with the packages of the checkpoint."""
        live = await super().wake(tree, checkpoint, identity, reseed=reseed)
        machine, there = cast("Any", live.machine), dict(self.packages[checkpoint.id])
        self.in_machines[identity.branch] = there

        async def execute(argv: Sequence[str], *, stdin: str = "", timeout_s: float = 0) -> object:
            return self._run(list(argv), there)

        async def outfit(_outfit: Outfit, *, timeout_s: float) -> None:
            """It is not asked for anything."""

        machine.execute, machine.outfit = execute, outfit
        return live

    async def publish(self, pending: Any, live: Live, tree: Tree) -> Checkpoint:
        """A checkpoint with the packages of the machine."""
        saved = await super().publish(pending, live, tree)
        self.packages[saved.id] = dict(self.in_machines[live.machine.identity.branch])
        return saved

    def require_loadable(self, tree: Tree, checkpoint: Checkpoint) -> None:
        """Unless the test says that it is another image's."""
        if self.refuses and checkpoint.id != BASE.id:
            raise IncompatibleError("image was one and is another")

    def _run(self, argv: list[str], there: dict[str, str]) -> CommandResult:
        if "-c" in argv:
            listed = {name: [version, name in self.direct] for name, version in there.items()}
            return CommandResult(status=0, stdout=json.dumps(listed), stderr="")
        wanted = argv[argv.index("--") + 1 :]
        if MISSING in wanted:
            said = f"ERROR: No matching distribution found for {MISSING}"
            return CommandResult(status=1, stdout="", stderr=said)
        for each in wanted:
            name, _, version = each.partition("==")
            there[name] = version or "1.0"
        return CommandResult(status=0, stdout=f"installed {' '.join(wanted)}", stderr="")


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """The host's pip has an index, which is all that is asked of it."""
    Index(tmp_path / "files" / "simple").add("small", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with web_files(tmp_path / "files") as port:
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple/")
        yield


async def let_out(it: Office) -> None:
    """Let pip out of the current branch."""
    await it.session.outside.allow("main", ["pip"])


@in_a_loop
async def test_later_machines_have_what_the_branch_had_and_what_was_named(tmp_path: Path) -> None:
    workshop = PipWorkshop()
    async with office(tmp_path, workshop) as it:
        await let_out(it)
        workshop.in_machines["main"]["here"] = "0.3"
        report = await it.session.image.bake(["small"])
        assert report.packages == ("here==0.3", "small==1.0")
        assert len(workshop.living()) == 1
        assert report.checkpoint.id in it.session.pins()
    async with office(tmp_path, workshop) as again:
        assert again.machine("main").woken_from == report.checkpoint.id
        assert workshop.in_machines["main"] == EVERYDAY | {"here": "0.3", "small": "1.0"}
        assert again.session.image.start().checkpoint == report.checkpoint
        assert way_back(again.session) == []


@in_a_loop
async def test_another_is_baked_upon_the_first_and_a_reset_goes_back_to_the_base(
    tmp_path: Path,
) -> None:
    async with office(tmp_path, PipWorkshop()) as it:
        await let_out(it)
        first = await it.session.image.bake(["small"])
        second = await it.session.image.bake(["other"])
        chain = [point.id for point in it.session.image.start().chain]
        assert chain == [second.checkpoint.id, first.checkpoint.id, BASE.id]
        assert it.session.pins() == {second.checkpoint.id}
        assert (await it.session.image.reset()).checkpoint.id == BASE.id
        assert it.session.pins() == set()
        gone = await it.session.remove([first.checkpoint, second.checkpoint])
        assert {point.id for point in gone} == {first.checkpoint.id, second.checkpoint.id}


@in_a_loop
async def test_a_package_that_was_named_is_taken_as_it_was_named(tmp_path: Path) -> None:
    workshop = PipWorkshop()
    async with office(tmp_path, workshop) as it:
        await let_out(it)
        workshop.in_machines["main"]["Small"] = "0.3"
        assert (await it.session.image.bake(["small==2.0"])).packages == ("small==2.0",)


@in_a_loop
async def test_what_came_from_no_index_is_left_out_and_told(tmp_path: Path) -> None:
    workshop = PipWorkshop(direct=frozenset({"mine"}))
    async with office(tmp_path, workshop) as it:
        await let_out(it)
        workshop.in_machines["main"]["mine"] = "0.1"
        report = await it.session.image.bake(["small"])
        assert report.packages == ("small==1.0",)
        assert report.left_out == ("mine==0.1",)


@in_a_loop
async def test_without_a_way_out_for_pip_it_is_refused_with_what_opens_one(tmp_path: Path) -> None:
    async with office(tmp_path, PipWorkshop()) as it:
        before = snapshot(it)
        with pytest.raises(RefusedError, match="pip may not") as refused:
            await it.session.image.bake(["small"])
        assert "%egress allow pip" in refused.value.hint
        assert snapshot(it) == before


@in_a_loop
async def test_with_nothing_to_bake_nothing_is_baked(tmp_path: Path) -> None:
    async with office(tmp_path, PipWorkshop()) as it:
        await let_out(it)
        before = snapshot(it)
        with pytest.raises(UsageError, match="no package beyond"):
            await it.session.image.bake([])
        assert snapshot(it) == before


@pytest.mark.parametrize("failing", ["pip", "draft", "publish", "record"])
@in_a_loop
async def test_what_fails_leaves_nothing_and_changes_nothing(tmp_path: Path, failing: str) -> None:
    workshop = PipWorkshop()
    async with office(tmp_path, workshop) as it:
        await let_out(it)
        start = (await it.session.image.bake(["small"])).checkpoint
        before = snapshot(it)
        match failing:
            case "draft":
                workshop.draft_error = FULL
            case "publish":
                workshop.publish_error = FULL
            case "record":
                it.journal.full = frozenset({"checkpoints"})
            case _:
                """It is pip that fails, over the name."""
        with pytest.raises((ImageBuildError, StorageError)):
            await it.session.image.bake([MISSING if failing == "pip" else "other"])
        assert snapshot(it) == before
        assert it.session.image.start().checkpoint == start
        assert it.session.pins() == {start.id}


@in_a_loop
async def test_a_start_of_another_image_is_told_and_baked_anew_from_the_base(
    tmp_path: Path,
) -> None:
    workshop = PipWorkshop()
    async with office(tmp_path, workshop) as it:
        await let_out(it)
        await it.session.image.bake(["small"])
        workshop.refuses = True
        assert it.session.image.start().refused == "image was one and is another"
        again = await it.session.image.bake(["other"])
        assert again.checkpoint.parent == BASE.id


@in_a_loop
async def test_a_start_that_should_have_come_up_and_did_not_is_told_and_still_built_upon(
    tmp_path: Path,
) -> None:
    workshop = PipWorkshop()
    async with office(tmp_path, workshop) as it:
        await let_out(it)
        first = await it.session.image.bake(["small"])
    workshop.kind_errors[CheckpointKind.USER] = FULL
    async with office(tmp_path, workshop) as again:
        del workshop.kind_errors[CheckpointKind.USER]
        assert again.machine("main").woken_from == BASE.id
        start = again.session.image.start()
        assert (start.checkpoint, start.refused, start.failed) == (first.checkpoint, "", str(FULL))
        await let_out(again)
        second = await again.session.image.bake(["other"])
        assert second.checkpoint.parent == first.checkpoint.id
        assert again.session.image.start().failed == ""
    async with office(tmp_path, workshop) as third:
        assert third.session.image.start().failed == ""


@in_a_loop
async def test_what_packages_run_while_they_install_reaches_the_index_alone(tmp_path: Path) -> None:
    async with office(tmp_path, PipWorkshop()) as it:
        await let_out(it)
        await it.session.outside.allow("main", ["api.example.org"])
        await it.session.image.bake(["small"])
        notes = it.session.outside.ledger.entries("s-1", branch="image")
        assert {note.draft.key for note in notes if note.draft.method == "allow"} == {"pip"}
        assert it.session.outside.policies.rules("image") == ()


@in_a_loop
async def test_each_baking_begins_anew_also_where_there_are_secrets(tmp_path: Path) -> None:
    secret = SecretSpec(name="API_KEY", hosts=("api.example.org",), source=SecretSource())
    workshop = PipWorkshop()
    async with office(tmp_path, workshop) as it:
        await it.session.outside.add_secret(secret, "abc")
        await let_out(it)
        with pytest.raises(ImageBuildError):
            await it.session.image.bake([MISSING])
        await it.session.image.bake(["small"])
        second = await it.session.image.bake(["other"])
    async with office(tmp_path, workshop) as again:
        assert again.session.image.start().checkpoint == second.checkpoint
        await again.session.outside.add_secret(secret, "abc")
        await let_out(again)
        third = await again.session.image.bake(["third"])
        assert third.packages == ("third==1.0",)


@in_a_loop
async def test_base_is_the_base_of_now_though_the_session_has_one_of_another_image(
    tmp_path: Path,
) -> None:
    async with office(tmp_path) as it:
        other = replace(BASE, id=CheckpointId("0ther0ther00"), key="another image")
        it.journal.add_checkpoint(other, advance=None)
        upon = replace(
            BASE,
            id=CheckpointId("5aved5aved00"),
            session=it.session.record.id,
            parent=other.id,
            label="then",
            kind=CheckpointKind.USER,
        )
        it.journal.add_checkpoint(upon, advance=None)
        assert other in it.session.checkpoints()
        assert it.session.find("base").id == BASE.id
        assert it.session.find("0ther0ther00") == other
        assert it.session.find("then") == upon


@in_a_loop
async def test_one_that_is_called_off_while_it_is_saved_leaves_nothing_and_changes_nothing(
    tmp_path: Path,
) -> None:
    saving, saved = asyncio.Event(), asyncio.Event()

    class Slow(PipWorkshop):
        async def publish(self, pending: Any, live: Live, tree: Tree) -> Checkpoint:
            saving.set()
            await saved.wait()
            return await super().publish(pending, live, tree)

    workshop = Slow()
    async with office(tmp_path, workshop) as it:
        await let_out(it)
        as_it_was = snapshot(it)
        baking = asyncio.create_task(it.session.image.bake(["small"]))
        await saving.wait()
        baking.cancel()
        await asyncio.sleep(0)
        saved.set()
        with pytest.raises(asyncio.CancelledError):
            await baking
        assert it.session.image.start().checkpoint == BASE
        assert snapshot(it) == as_it_was
        assert workshop.living() == [it.machine("main")]

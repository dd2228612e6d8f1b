"""The store of real checkpoints: kept within budgets, collected as was told, damage found in it."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.front_end import in_a_loop

from branchpoint_cli.__main__ import main
from branchpoint_vmruntime import Manifest, Runtime
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import CheckpointKind, SessionId
from branchpoint_vmruntime.storage.collecting import collect
from branchpoint_vmruntime.storage.digests import check, read_digests
from branchpoint_vmruntime.storage.keeping import remember
from branchpoint_vmruntime.storage.retention import StoreBudgets
from branchpoint_vmruntime.storage.sizes import checkpoint_sizes, layer_of
from branchpoint_vmruntime.storage.verifying import verify
from branchpoint_vmruntime.store import MEMORY

pytestmark = pytest.mark.vm

KEY = "a store"
WITHIN = Manifest.parse("store: {checkpoints: 4}")
WORK = "import os; blob = os.urandom(4 << 20); step = {}"


@dataclass(frozen=True, kw_only=True)
class Made:
    """What a session left: its checkpoints by label, and what it said after it came back."""

    home: Home
    session: SessionId
    ids: dict[str, str]
    labels: list[str]
    came_back: str


@pytest.fixture(scope="module")
def made(home: Home) -> Made:
    """A closed session of one chain: first, second, third, and the safety of a rollback to second.

    Its manifest allows four checkpoints; a fifth and sixth were taken and went again.
    """
    return asyncio.run(_made(home))


async def _made(home: Home) -> Made:
    async with Runtime(home) as runtime, runtime.session(WITHIN, key=KEY) as session:
        main_branch = session.current
        ids: dict[str, str] = {}
        for number, label in enumerate(("first", "second", "third"), 1):
            await main_branch.run(WORK.format(number))
            ids[label] = (await session.checkpoint(label)).id
        safeties = [(await session.rollback(label)).safety for label in ("second", "third")]
        report = await session.rollback("second")
        assert all(safeties)
        assert report.safety is not None
        ids["safety"] = report.safety.id
        labels = [each.label for each in session.checkpoints() if each.session]
        return Made(
            home=home,
            session=session.record.id,
            ids=ids,
            labels=labels,
            came_back=str(await session.current.run("step")).strip(),
        )


def test_an_open_session_keeps_what_is_dear_and_lets_the_oldest_safety_go(made: Made) -> None:
    assert len(made.labels) == 4
    assert made.labels[:3] == ["first", "second", "third"]
    assert made.labels[3].startswith("before-rollback")
    assert made.came_back == "2"
    there = {path.name for path in (made.home.layers / made.session).iterdir()}
    assert there == set(made.ids.values())


@in_a_loop
async def test_real_layers_have_digests_and_their_sizes_are_told_apart(made: Made) -> None:
    async with Runtime(made.home) as runtime:
        checkpoints = runtime.journal.checkpoints(made.session)
    for each in checkpoints:
        layer = layer_of(made.home, each)
        noted = read_digests(layer)
        assert set(noted) >= {MEMORY, "devices", "machine.json", "nonce"}
        assert {path.name for path in layer.folder.iterdir()} == {*noted, "digests.json"}
        assert check(layer) == []
    sizes = checkpoint_sizes(made.home, checkpoints)
    base, first, second = checkpoints[:3]
    assert base.kind is CheckpointKind.BASE
    assert sizes[base.id].shared == 0
    assert sizes[first.id].own > 4 << 20
    assert sizes[second.id].shared == sizes[base.id].own + sizes[first.id].own
    assert sizes[second.id].apparent > 1 << 30 > sizes[second.id].own


@in_a_loop
async def test_a_flipped_byte_is_found_and_all_that_descend_from_it_are_named(made: Made) -> None:
    path = made.home.layers / made.session / made.ids["first"] / MEMORY
    place = path.stat().st_size // 2
    with path.open("r+b") as file:
        file.seek(place)
        before = file.read(1)
        file.seek(place)
        file.write(bytes([before[0] ^ 1]))
    try:
        found = await verify(made.home, made.session)
    finally:
        with path.open("r+b") as file:
            file.seek(place)
            file.write(before)
    (damaged,) = found.damaged
    assert damaged.checkpoint.id == made.ids["first"]
    assert [damage.path for damage in damaged.damages] == [path]
    descendants = {each.id for each in damaged.needed_by}
    assert descendants == {made.ids[label] for label in ("second", "third", "safety")}
    assert found.disks_unread == 0
    assert (await verify(made.home, made.session)).whole


def removed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What of a session's checkpoints `branchpoint gc` says that goes."""
    main(["gc", "--json", *arguments])
    said = json.loads(capsys.readouterr().out)
    return [each for each in said["removals"] if each["kind"] == "checkpoint"]


def test_a_collection_removes_what_the_dry_run_said_and_the_rest_still_works(
    made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    # Of this session alone: other tests have theirs in the same home.
    remember(made.home.session(made.session), StoreBudgets(checkpoints=2))
    dry = removed(["--dry-run"], capsys)
    assert [Path(each["path"]).name for each in dry] == [
        made.ids["safety"],
        made.ids["third"],
    ]
    assert all(Path(each["path"]).is_dir() for each in dry)
    assert removed([], capsys) == dry
    assert not any(Path(each["path"]).exists() for each in dry)
    assert asyncio.run(_reopened(made)) == "2"


async def _reopened(made: Made) -> str:
    async with Runtime(made.home) as runtime, runtime.session(WITHIN, key=KEY) as session:
        await session.rollback("second", safety=False)
        return str(await session.current.run("step")).strip()


@in_a_loop
async def test_an_open_session_is_asked_by_a_collection_and_removes_its_own(made: Made) -> None:
    async with (
        Runtime(made.home) as runtime,
        runtime.session(Manifest(), key="an open store") as session,
    ):
        await session.checkpoint("kept")
        left = (await session.rollback("kept")).safety
        assert left is not None
        mine = session.record.id
        remember(made.home.session(mine), StoreBudgets(checkpoints=1))
        dry = await collect(made.home, dry_run=True)
        assert left in session.checkpoints()
        real = await collect(made.home)
        of_mine = [each for each in real.removals if each.session == mine]
        assert [each.path.name for each in of_mine] == [left.id]
        assert of_mine == [each for each in dry.removals if each.session == mine]
        assert [each.label for each in session.checkpoints() if each.session] == ["kept"]
        assert not of_mine[0].path.exists()
        assert str(await session.current.run("1 + 1")).strip() == "2"

"""A session's operations as another process asks for them: real sockets, made-up machines."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_workshop import FULL
from tests.support.front_end import in_a_loop
from tests.unit.runtime.served import HeldRuns, Served, asked, served

from branchpoint_vmruntime.control_facts import PauseFacts
from branchpoint_vmruntime.control_socket import ControlClient
from branchpoint_vmruntime.errors import (
    BranchpointError,
    CheckpointError,
    MachineStartError,
    NameTakenError,
    UnknownNameError,
    UsageError,
)
from branchpoint_vmruntime.lineage import BranchState, CheckpointKind
from branchpoint_vmruntime.session_control import SessionControl

LABEL = "geladen-加载"


@in_a_loop
async def test_a_checkpoint_bears_its_label_its_note_and_its_pin(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, control):
        made = await control.checkpoint(LABEL, note="vor dem Säubern", pinned=True)
        assert (made.label, made.note, made.pinned) == (LABEL, "vor dem Säubern", True)
        assert [it.label for it in await control.checkpoints()] == ["base", LABEL]
        assert [it.pinned for it in await control.checkpoints()] == [False, True]


@in_a_loop
async def test_a_fork_a_switch_and_a_drop_are_told_as_they_are(tmp_path: Path) -> None:
    async with asked(tmp_path) as (there, control):
        await control.checkpoint(LABEL)
        forked = await control.fork(2, names=["größe", "b"], start=LABEL)
        assert [it.name for it in forked.branches] == ["größe", "b"]
        assert forked.origin.label == LABEL
        assert (await control.switch("größe")).current
        assert there.session.current.name == "größe"
        assert [it.state for it in await control.drop(["b"])] == [BranchState.DROPPED]
        states = {it.name: it.state for it in await control.branches()}
        assert states == {
            "main": BranchState.LIVE,
            "größe": BranchState.LIVE,
            "b": BranchState.DROPPED,
        }


@in_a_loop
async def test_a_branch_that_is_kept_goes_on_and_the_others_are_told_to_be_parked(
    tmp_path: Path,
) -> None:
    async with asked(tmp_path) as (there, control):
        await control.fork(1, names=["größe"])
        kept = await control.keep("größe")
        assert kept.branch.current
        assert [(it.name, it.state) for it in kept.parked] == [("main", BranchState.PARKED)]
        assert there.session.current.name == "größe"


@in_a_loop
async def test_a_branch_that_cannot_be_parked_is_told_with_what_was_kept(tmp_path: Path) -> None:
    async with asked(tmp_path) as (there, control):
        await control.fork(1, names=["a"])
        there.workshop.publish_error = CheckpointError("no room", hint="make some")
        kept = await control.keep("a")
        assert kept.branch.current
        assert [(it.name, it.message, it.hint) for it in kept.failures] == [
            ("main", "no room", "make some")
        ]


@in_a_loop
async def test_forks_that_do_not_come_up_are_told_one_by_one(tmp_path: Path) -> None:
    async with asked(tmp_path) as (there, control):
        there.workshop.wake_errors["b"] = MachineStartError("made to fail", hint="try again")
        forked = await control.fork(2, names=["a", "b"])
        assert [it.name for it in forked.branches] == ["a"]
        assert [(it.name, it.message, it.hint) for it in forked.failures] == [
            ("b", "made to fail", "try again")
        ]


@in_a_loop
async def test_where_no_fork_comes_up_that_is_an_error(tmp_path: Path) -> None:
    async with asked(tmp_path) as (there, control):
        there.workshop.wake_errors["a"] = MachineStartError("made to fail", hint="try again")
        with pytest.raises(MachineStartError, match="no fork came up; a: made to fail"):
            await control.fork(1, names=["a"])


@in_a_loop
async def test_a_rollback_goes_back_and_names_what_it_left(tmp_path: Path) -> None:
    async with asked(tmp_path) as (there, control):
        await control.checkpoint(LABEL)
        went = await control.rollback(LABEL)
        assert (went.branch.head_label, went.checkpoint.label) == (LABEL, LABEL)
        assert went.safety is not None
        assert went.safety.kind is CheckpointKind.SAFETY
        assert (await control.rollback(safety=False)).safety is None
        assert there.office.machine("main").woken_from == went.checkpoint.id


@in_a_loop
async def test_a_paused_branch_has_no_machine_until_it_is_resumed(tmp_path: Path) -> None:
    async with asked(tmp_path) as (there, control):
        paused = await control.pause()
        assert (paused.branch.state, paused.branch.own_bytes) == (BranchState.PAUSED, None)
        assert paused.freed_bytes > 0
        assert not there.workshop.living()
        resumed = await control.resume()
        assert resumed.branch.state is BranchState.LIVE
        assert resumed.checkpoint.id == paused.checkpoint.id


@pytest.mark.parametrize("op", ["checkpoint", "fork", "run"])
@in_a_loop
async def test_what_needs_a_machine_resumes_a_branch_that_is_paused(
    tmp_path: Path, runs: HeldRuns, op: str
) -> None:
    runs.go.set()
    async with asked(tmp_path) as (there, control):
        await control.pause()
        match op:
            case "checkpoint":
                await control.checkpoint()
            case "fork":
                await control.fork(1)
            case _:
                assert (await control.run("x")).text == "main: x"
        assert there.session.current.state is BranchState.LIVE


@in_a_loop
async def test_pins_are_put_and_taken_away_and_what_nothing_needs_can_be_removed(
    tmp_path: Path,
) -> None:
    async with asked(tmp_path) as (_, control):
        await control.checkpoint("a")
        await control.rollback("base", safety=False)
        assert (await control.pin("a")).pinned
        assert await control.remove(["a"]) == []
        assert not (await control.pin("a", pinned=False)).pinned
        assert [it.label for it in await control.remove(["a"])] == ["a"]
        assert [it.label for it in await control.checkpoints()] == ["base"]


@pytest.mark.parametrize(
    ("op", "fields", "kind", "words"),
    [
        ("rollback", {"target": "nope"}, UnknownNameError, "no checkpoint 'nope'"),
        ("pause", {"name": "größe"}, UnknownNameError, "no branch 'größe'"),
        ("fork", {"names": ["main"]}, NameTakenError, "already a branch of that name: main"),
        ("fork", {"names": "main"}, UsageError, "names has to be a list of texts, not 'main'"),
        ("fork", {"names": [4]}, UsageError, "there is 4 in it"),
        ("fork", {"count": "2"}, UsageError, "count has to be a number, not '2'"),
        ("rollback", {"safety": 1}, UsageError, "safety has to be true or false, not 1"),
        ("switch", {}, UsageError, "name has to be a text, not None"),
        ("resume", {}, UsageError, "branch 'main' is not paused"),
    ],
)
@in_a_loop
async def test_what_is_refused_keeps_its_kind_and_its_words(
    tmp_path: Path, op: str, fields: dict[str, Any], kind: type[BranchpointError], words: str
) -> None:
    async with served(tmp_path) as there, ControlClient(there.socket) as client:
        with pytest.raises(kind, match=words) as refused:
            await client.ask(op, **fields)
        assert type(refused.value) is kind


@in_a_loop
async def test_a_name_that_is_not_known_comes_with_those_that_are(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, control):
        with pytest.raises(UnknownNameError) as refused:
            await control.switch("mian")
        assert (refused.value.kind, refused.value.name) == ("branch", "mian")
        assert refused.value.known == ("main",)


@in_a_loop
async def test_two_commands_at_once_are_done_one_after_the_other(tmp_path: Path) -> None:
    async with served(tmp_path) as there, asyncio.TaskGroup() as group:
        there.workshop.wake_holds["a"] = go = asyncio.Event()
        first = group.create_task(forked(there.socket, "a"))
        await fork_is_under_way(there)
        second = group.create_task(labelled(there.socket, "after"))
        async with SessionControl(there.socket) as looking:
            # What only looks does not wait, and finds the second not begun.
            for _ in range(5):
                assert [it.label for it in await looking.checkpoints()] == ["base", "fork-1"]
        assert not second.done()
        go.set()
        assert await first < await second


async def fork_is_under_way(there: Served) -> None:
    while not there.session.checkpoints()[1:]:  # noqa: ASYNC110 (its fork point is all that shows)
        await asyncio.sleep(0)


async def forked(socket: Path, name: str) -> float:
    async with SessionControl(socket) as control:
        await control.fork(1, names=[name])
        return asyncio.get_running_loop().time()


async def labelled(socket: Path, label: str) -> float:
    async with SessionControl(socket) as control:
        await control.checkpoint(label)
        return asyncio.get_running_loop().time()


@in_a_loop
async def test_each_operation_is_done_in_the_turn_of_whoever_drives_the_session(
    tmp_path: Path,
) -> None:
    turns: list[str] = []

    async with asked(tmp_path) as (there, control):

        @asynccontextmanager
        async def turn() -> AsyncGenerator[None]:
            turns.append("begins")
            yield
            turns.append(f"ends with {len(there.session.checkpoints())}")

        there.session.turn = turn
        await control.checkpoint()
        await control.branches()
        assert turns == ["begins", "ends with 2"]


@in_a_loop
async def test_a_turn_is_waited_for_however_long_and_what_came_back_in_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def after_a_while() -> AsyncGenerator[None]:
        await asyncio.sleep(0.2)
        yield

    usual = ControlClient.ask.__kwdefaults__
    assert usual is not None
    monkeypatch.setitem(usual, "timeout_s", 0.05)
    async with asked(tmp_path) as (there, control):
        await control.fork(1, names=["ridge"])
        await control.checkpoint("old")
        await control.checkpoint("new")
        # Nothing stands on it any more.
        await control.rollback("old", safety=False)
        there.session.turn = after_a_while
        there.session.came_back.append(("boost", "/notes/demo-boost.ipynb"))
        assert [it.name for it in await control.drop(["ridge"])] == ["ridge"]
        assert control.came_back == [("boost", "/notes/demo-boost.ipynb")]
        there.session.came_back.append(("tree", "/notes/demo-tree.ipynb"))
        assert [it.label for it in await control.remove(["new"])] == ["new"]
        assert control.came_back[1:] == [("tree", "/notes/demo-tree.ipynb")]


@in_a_loop
async def test_what_is_to_be_told_besides_is_left_to_a_cell_where_a_page_asks(
    tmp_path: Path,
) -> None:
    async with asked(tmp_path) as (there, control), ControlClient(there.socket) as page:
        there.session.notices.append("over the budget of the store: removed one")
        assert "notices" not in await page.ask("checkpoint", asked="page")
        assert len(there.session.notices) == 1
        await control.checkpoint()
        assert control.notices == ["over the budget of the store: removed one"]
        assert there.session.notices == []


@in_a_loop
async def test_a_client_that_hangs_up_calls_nothing_off(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        there.workshop.wake_holds["a"] = go = asyncio.Event()
        async with SessionControl(there.socket) as control:
            asking = asyncio.create_task(control.fork(1, names=["a"]))
            await fork_is_under_way(there)
            asking.cancel()
            with suppress(asyncio.CancelledError):
                await asking
        go.set()
        async with SessionControl(there.socket) as another:
            await another.checkpoint()
            assert [it.name for it in await another.branches()] == ["main", "a"]


@in_a_loop
async def test_a_disk_that_is_full_is_told_as_that(tmp_path: Path) -> None:
    async with asked(tmp_path) as (there, control):
        there.workshop.draft_error = FULL
        with pytest.raises(type(FULL), match="the disk is full") as refused:
            await control.checkpoint()
        assert refused.value.hint == FULL.hint
        there.workshop.draft_error = None
        assert isinstance(await control.pause(), PauseFacts)

"""Comparing branches and checkpoints through the whole proxy, on machines made up."""

import asyncio
import base64
import json
import zlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.fake_branch import FakeBranch, FakeInside
from tests.support.front_end import in_a_loop, open_notebook

from branchpoint_vmruntime.lineage import Checkpoint
from branchpoint_vmruntime.results import CommandResult
from branchpoint_vmruntime.start_image import BakeReport


def packed(told: Mapping[str, Any]) -> CommandResult:
    line = base64.b64encode(zlib.compress(json.dumps(told).encode())).decode()
    return CommandResult(status=0, stdout=line, stderr="")


class Told(FakeInside):
    """Each machine has a file and a variable named after it; every one has the same content."""

    def execute(self, branch: FakeBranch, argv: Sequence[str], stdin: str) -> CommandResult:
        if "--read" in argv:
            content = base64.b64encode(f"same\n{branch.name}\n".encode()).decode()
            return packed({"kind": "file", "size": 6 + len(branch.name), "content": content})
        row = [f"/root/{branch.name}", "file", 420, 5, 1, "d", False]
        return packed({"files": [row], "packages": {"python": {}}, "left_out": 0})

    def variables(self, branch: FakeBranch) -> Sequence[Mapping[str, Any]] | None:
        facts = {"type": "builtins.int", "size": 28, "repr": "1", "digest": "1", "exact": True}
        return [{"name": f"v_{branch.name}", **facts}, {"name": "same", **facts}]


class Mute(FakeInside):
    """Machines without Python, in which another kernel runs."""

    def execute(self, branch: FakeBranch, argv: Sequence[str], stdin: str) -> CommandResult:
        return CommandResult(status=127, stdout="", stderr="sh: python3: not found\n")


@in_a_loop
async def test_a_checkpoint_is_woken_for_a_look_and_ended_again() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint a")
        notebook.session.inside = Told()
        notebook.session.current.inside = notebook.session.inside
        answer = await notebook.run("%diff a")
        record = answer.record
        assert (record["before"], record["after"]) == ("a", "main as it is now")
        assert {each["path"]: each["change"] for each in record["files"]} == {
            "/root/main": "added",
            "/root/peek": "removed",
        }
        assert {each["name"]: each["change"] for each in record["variables"]} == {
            "v_main": "added",
            "v_peek": "removed",
        }
        assert record["same"] == 1
        assert [branch.name for branch in notebook.session.branches()] == ["main"]
        assert notebook.session.room() == notebook.session.machines - 1


@in_a_loop
async def test_a_name_is_a_branchs_before_it_is_a_checkpoints() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint twin")
        await notebook.run("%fork 1 --names twin")
        record = (await notebook.run("%diff twin")).record
        assert record["before"] == "twin as it is now"


@in_a_loop
async def test_a_checkpoint_that_is_asked_for_by_its_id_is_called_by_its_label() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint a")
        answer = await notebook.run(f"%diff {notebook.session.checkpoints()[-1].id}")
        assert "from a to main as it is now" in answer.text
        assert answer.record["before"] == "a"


@in_a_loop
async def test_a_parked_branch_is_compared_as_it_was_saved() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names other")
        await notebook.run("%keep main")
        record = (await notebook.run("%diff other")).record
        assert record["before"].startswith("other as saved at parked-other")


@in_a_loop
async def test_what_cannot_be_told_is_said_and_the_rest_is_shown() -> None:
    async with open_notebook() as notebook:
        notebook.session.current.inside = Mute()
        answer = await notebook.run("%diff main")
        assert answer.status == "ok"
        assert "▸ files   not compared" in answer.text
        assert "sh: python3: not found" in answer.text
        assert "this kernel does not tell its variables" in answer.text
        assert answer.record["files"] is None


@in_a_loop
async def test_one_file_is_shown_line_by_line() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint a")
        notebook.session.inside = Told()
        notebook.session.current.inside = notebook.session.inside
        answer = await notebook.run("%diff a main --text notes.txt")
        assert "-peek\n+main" in answer.text
        assert answer.record["path"] == "notes.txt"


@in_a_loop
async def test_a_name_that_means_nothing_is_refused_with_all_that_there_is() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint loaded")
        answer = await notebook.run("%diff laoded")
        assert answer.status == "error"
        assert "main, loaded" in answer.text
        assert "did you mean 'loaded'?" in answer.text


@pytest.mark.parametrize("cell", ["%diff a", "%rollback a --preview", "%undo --preview"])
@in_a_loop
async def test_a_look_into_machines_ends_at_an_interrupt_and_nothing_is_left_of_it(
    cell: str,
) -> None:
    async with open_notebook() as notebook:
        session, looking = notebook.session, asyncio.Event()
        await notebook.run("%checkpoint a")
        await notebook.run("1")
        room, peek = session.room(), session.peek

        @asynccontextmanager
        async def endless(checkpoint: Checkpoint) -> AsyncGenerator[FakeBranch]:
            async with peek(checkpoint) as peeked:
                looking.set()
                await asyncio.Event().wait()
                yield peeked

        session.peek = endless
        sent = notebook.send(cell)
        await looking.wait()
        assert session.room() == room - 1
        notebook.control("interrupt_request")
        answer = await notebook.answer(sent)
        assert answer.status == "error"
        assert "interrupted: nothing was changed" in answer.text
        assert session.room() == room
        assert (await notebook.run("1")).text == "1\n"


@in_a_loop
async def test_packages_are_baked_no_further_after_an_interrupt() -> None:
    async with open_notebook() as notebook:
        image, baking = notebook.session.image, asyncio.Event()

        async def endless(named: Sequence[str]) -> BakeReport:
            baking.set()
            await asyncio.Event().wait()
            raise AssertionError(named)

        image.bake = endless
        sent = notebook.send("%image add small")
        await baking.wait()
        notebook.control("interrupt_request")
        assert "interrupted: nothing was changed" in (await notebook.answer(sent)).text
        assert (await notebook.run("1")).text == "1\n"

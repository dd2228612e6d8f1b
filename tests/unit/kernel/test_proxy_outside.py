"""The outside world's magics through the whole proxy: who may, what is asked, what is shown."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_streams import FakeEnd
from tests.support.front_end import Notebook, in_a_loop, open_notebook

from branchpoint_vmruntime.errors import GuestRefusedError, StreamResetError
from branchpoint_vmruntime.ledger import Decision, Draft, EntryKind, Outcome, OutcomeState


def did(notebook: Notebook, method: str, url: str, status: int) -> None:
    """The current branch's machine has made a request."""
    outside = notebook.session.outside
    who = outside.who()
    draft = Draft(
        session=who.session,
        branch=who.branch,
        incarnation=who.incarnation,
        checkpoint=who.checkpoint(),
        kind=EntryKind.REQUEST,
        decision=Decision.ALLOWED,
        method=method,
        url=url,
    )
    outcome = Outcome(at=datetime.now(UTC), state=OutcomeState.DONE, status=status)
    outside.ledger.note(draft, outcome)


async def ask_inside(notebook: Notebook, name: str, line: str) -> Mapping[str, Any]:
    calls = notebook.session.current.calls
    request = {"do": "magic", "name": name, "line": line, "body": "", "by": "function"}
    return await calls.answered(calls.ask(request))


@in_a_loop
async def test_a_magic_between_code_is_a_cells_own_and_one_that_code_asks_for_is_not() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run("x = 1\n%egress allow api.example.org\nx + 1")
        assert answer.status == "ok"
        assert "main may reach" in answer.text
        assert answer.text.endswith("2\n")
        asked = await ask_inside(notebook, "egress", "allow other.example.org")
        assert asked["status"] == "error"
        assert "only a cell of the notebook may open what leaves" in asked["evalue"]
        rules = notebook.session.outside.policies.rules("main")
        assert [rule.host for rule in rules] == ["api.example.org"]


@in_a_loop
async def test_going_back_names_what_it_does_not_undo() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint loaded")
        assert "not undone" not in (await notebook.run("%rollback loaded")).text
        did(notebook, "POST", "http://a.example.org/orders", 201)
        did(notebook, "GET", "http://a.example.org/", 200)
        forked = await notebook.run("%fork 1 --from loaded --names b")
        assert "1 external action since then was made that the forks know nothing of" in forked.text
        answer = await notebook.run("%rollback loaded")
        assert "⚠ 1 external action since then was not undone: POST http://a.ex" in answer.text
        assert "; and 1 read" in answer.text
        assert [entry["status"] for entry in answer.record["effects"]] == [201, 200]
        again = await notebook.run("%rollback loaded")
        assert "not undone" not in again.text
        assert again.record["effects"] == []


@in_a_loop
async def test_a_secrets_value_is_asked_for_unseen_and_shown_nowhere() -> None:
    async with open_notebook() as notebook:
        sent = notebook.send("%secrets add API_TOKEN --host api.example.org", allow_stdin=True)
        asked = await notebook.client.get_stdin_msg(timeout=120)
        assert asked["content"] == {"prompt": "API_TOKEN: ", "password": True}
        assert asked["parent_header"]["msg_id"] == sent
        notebook.client.input("s3cr3t-value")
        answer = await notebook.answer(sent)
        assert answer.status == "ok", answer.text
        assert "typed in" in (await notebook.run("%secrets")).text
        outfit = notebook.session.fitted["main"].outfits[-1]
        assert outfit.environment["API_TOKEN"]
        assert "s3cr3t" not in repr(notebook.seen) + repr(outfit)


@in_a_loop
async def test_where_nobody_can_be_asked_a_secret_is_refused_with_what_to_type() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run("%secrets add API_TOKEN --host api.example.org")
        assert answer.status == "error"
        assert "takes no input" in answer.text
        assert "--from env:VARIABLE or --from file:PATH" in answer.text


@in_a_loop
async def test_an_interrupt_ends_the_question_for_a_secret() -> None:
    async with open_notebook() as notebook:
        sent = notebook.send("%secrets add API_TOKEN --host api.example.org", allow_stdin=True)
        await notebook.client.get_stdin_msg(timeout=120)
        await notebook.reply(notebook.control("interrupt_request"), "control")
        answer = await notebook.answer(sent)
        assert answer.status == "error"
        assert "interrupted: there is no secret API_TOKEN" in answer.text
        assert notebook.session.outside.vault.names() == []


class Slow:
    """A machine that takes some of what is put, and then no more."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def serve(self, end: FakeEnd) -> None:
        if end.purpose[0] != "put":
            raise GuestRefusedError("nothing else")
        self.asked.set()
        taken = 0
        while taken < 2_000_000:
            taken += len(await end.read())
        await asyncio.sleep(3600)


@in_a_loop
async def test_a_copy_shows_how_far_it_is_holds_up_nothing_and_is_ended_by_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "much.bin").write_bytes(bytes(5_000_000))
    async with open_notebook() as notebook:
        slow = Slow()
        notebook.session.current.streams.on_open = slow.serve
        sent = notebook.send("%put much.bin")
        await slow.asked.wait()
        # Both are answered while it copies.
        await notebook.reply(notebook.control("kernel_info_request"), "control")
        asked = await ask_inside(notebook, "checkpoint", "meanwhile")
        assert asked["status"] == "ok"
        while not any(shows(message, "of 5.0 MB") for message in notebook.seen):
            notebook.seen.append(await notebook.client.get_iopub_msg(timeout=120))
        await notebook.reply(notebook.control("interrupt_request"), "control")
        answer = await notebook.answer(sent)
        assert answer.status == "error"
        assert "interrupted: nothing remains" in answer.text
        (display,) = [m for m in answer.outputs if m["msg_type"] == "display_data"]
        last = [m for m in answer.outputs if m["msg_type"] == "update_display_data"][-1]
        assert shows(last, "✕ much.bin   stopped after")
        assert last["content"]["transient"] == display["content"]["transient"]


@in_a_loop
async def test_a_copy_asked_for_inside_holds_up_no_other_call_and_ends_with_its_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "much.bin").write_bytes(bytes(5_000_000))
    async with open_notebook() as notebook:
        asked, go_on, cut = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def serve(end: FakeEnd) -> None:
            await end.read()
            asked.set()
            await go_on.wait()
            try:
                while await end.read():
                    pass
            except StreamResetError:
                cut.set()

        notebook.session.current.streams.on_open = serve
        calls = notebook.session.current.calls
        number = calls.ask({"do": "magic", "name": "put", "line": "much.bin", "by": "function"})
        await asked.wait()
        assert (await ask_inside(notebook, "checkpoint", "meanwhile"))["status"] == "ok"
        calls.note_gone(number)
        go_on.set()
        async with asyncio.timeout(120):
            await cut.wait()


def shows(message: Mapping[str, Any], text: str) -> bool:
    return text in message["content"].get("data", {}).get("text/plain", "")


@in_a_loop
async def test_completion_knows_groups_what_is_allowed_and_secrets() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%egress allow api.example.org")
        await notebook.run("%secrets add API_KEY --host api.example.org --from env:HOME")

        async def complete(code: str) -> list[str]:
            reply = await notebook.reply(notebook.client.complete(code, len(code)))
            content = reply["content"]
            return [code[: content["cursor_start"]] + match for match in content["matches"]]

        assert await complete("%egress al") == ["%egress allow"]
        assert await complete("%egress allow a") == ["%egress allow apt"]
        assert await complete("%egress deny a") == ["%egress deny api.example.org"]
        assert await complete("%egress deny x --branch ") == [
            "%egress deny x --branch main",
            "%egress deny x --branch all",
        ]
        assert await complete("%secrets remove ") == [
            "%secrets remove API_KEY",
            *(f"%secrets remove {flag}" for flag in ("--host", "--header", "--from")),
        ]
        assert await complete("%costs --raise to") == ["%costs --raise tokens="]
        assert await complete("%forward 80 --branch m") == ["%forward 80 --branch main"]


@in_a_loop
async def test_branches_are_listed_with_their_forwards() -> None:
    async with open_notebook() as notebook:
        made = await notebook.run("%forward 8000")
        (forward,) = made.record["forwards"]
        told = (await notebook.run("%branches")).text
        assert f"port 8000 at 127.0.0.1:{forward['host_port']}" in told

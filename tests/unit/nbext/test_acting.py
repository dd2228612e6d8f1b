"""What pages have done to a session, as its owner hears it and as they hear of it."""

import asyncio
import json
import socket
from dataclasses import replace
from typing import Any

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.lineage.facts import SESSION, a_branch, a_checkpoint
from tests.unit.nbext.serving import Server, owner_of

from branchpoint_vmruntime.errors import (
    BranchpointError,
    CheckpointError,
    SessionBusyError,
    UnknownNameError,
    UsageError,
)
from branchpoint_vmruntime.lineage import Cell, Moment
from branchpoint_vmruntime.lineage.journal import Journal

pytestmark = pytest.mark.usefixtures("journal")
SWITCH = {"session": SESSION, "op": "switch", "name": "ridge"}


@in_a_loop
async def test_an_action_reaches_the_owner_as_it_was_asked_for_and_that_it_was_in_a_page(
    server: Server,
) -> None:
    async with owner_of(server.home) as owner:
        answer = await server.post_beside("/branchpoint/act", **SWITCH)
        assert (answer.status, answer.json) == (200, {"done": {"name": "done"}})
        assert owner.heard == [{"op": "switch", "name": "ridge", "asked": "page"}]


@in_a_loop
async def test_a_question_is_answered_as_the_owner_answers_it(server: Server) -> None:
    async with owner_of(server.home) as owner:
        answer = await server.post_beside(
            "/branchpoint/ask", session=SESSION, op="preview", target="loaded"
        )
        assert answer.json == {"name": "done"}
        assert owner.heard == [{"op": "preview", "target": "loaded"}]


@pytest.mark.parametrize(
    ("refused", "status"),
    [
        (SessionBusyError("a cell runs", hint="wait for it: 50% done"), 409),
        (UnknownNameError("branch", "ridge", ("main",)), 404),
        (UsageError("50% is no name", hint="give another"), 400),
        (CheckpointError("the disk is full", hint="free some"), 422),
        (BranchpointError("that failed"), 422),
    ],
    ids=lambda it: type(it).__name__,
)
@in_a_loop
async def test_what_the_owner_refuses_is_told_in_its_words(
    server: Server, refused: BranchpointError, status: int
) -> None:
    async with owner_of(server.home) as owner:
        owner.refuses = refused
        answer = await server.post_beside("/branchpoint/act", **SWITCH)
        assert answer.status == status
        assert answer.json == {"message": str(refused), "hint": refused.hint}


def test_the_cells_of_a_session_that_is_closed_are_told_from_the_record(
    server: Server, journal: Journal
) -> None:
    cell = Cell(id="c-1", count=1, source="x = 1")
    ran = replace(a_checkpoint("ran", "loaded"), moment=Moment(count=1, done=(cell,)))
    journal.add_checkpoint(ran, advance=a_branch().name)
    told = [{"id": "c-1", "count": 1, "source": "x = 1"}]
    fields = {"session": SESSION, "op": "cells"}
    assert server.post("/branchpoint/ask", **fields, of="main").json == {"cells": told}
    assert server.post("/branchpoint/ask", **fields, of="loaded").json == {"cells": []}
    assert server.post("/branchpoint/ask", **fields, of="nobody").status == 404


def test_nothing_is_done_to_a_session_that_is_closed(server: Server) -> None:
    answer = server.post("/branchpoint/act", **SWITCH)
    assert answer.status == 400
    assert answer.json["message"] == "nobody has that session open"
    assert "open its notebook" in answer.json["hint"]


@in_a_loop
async def test_an_owner_that_ends_before_it_has_answered_is_told_of(server: Server) -> None:
    async with owner_of(server.home) as owner:
        owner.let.clear()
        asked = asyncio.create_task(server.post_beside("/branchpoint/act", **SWITCH))
        await owner.asked.wait()
    answer = await asked
    assert answer.status == 410
    assert "has just ended" in answer.json["message"]


@in_a_loop
async def test_a_page_that_goes_away_calls_nothing_off(server: Server) -> None:
    async with owner_of(server.home) as owner:
        owner.let.clear()
        body = json.dumps(SWITCH).encode()
        with socket.create_connection(("127.0.0.1", server.port)) as page:
            page.sendall(
                b"POST /branchpoint/act HTTP/1.1\r\nHost: localhost\r\n"
                b"Authorization: token %s\r\nContent-Length: %d\r\n\r\n%s"
                % (server.token.encode(), len(body), body)
            )
            await owner.asked.wait()
        # The server hears of its going before it hears of anything else.
        assert (await server.get_beside("/branchpoint/sessions")).status == 200
        owner.let.set()
        await owner.done.wait()
        assert (await server.post_beside("/branchpoint/act", **SWITCH)).status == 200


@pytest.mark.parametrize("route", ["act", "ask", "open-branch"])
@pytest.mark.parametrize(
    "fields",
    [
        {"session": SESSION, "op": "end"},
        {"session": SESSION, "op": "switch", "name": 1},
        {"session": SESSION, "branch": ["main"], "path": "a.ipynb"},
        {"session": SESSION, "branch": "main", "path": "a.ipynb", "more": 1},
        {},
    ],
)
def test_what_is_no_order_is_refused_in_words(
    server: Server, route: str, fields: dict[str, Any]
) -> None:
    answer = server.post(f"/branchpoint/{route}", **fields)
    assert answer.status == 400
    assert set(answer.json) == {"message", "hint"}
    assert answer.json["message"]


@pytest.mark.parametrize("session", ["nobody", f"../run/{SESSION}", "/etc/passwd"])
@pytest.mark.parametrize(
    ("route", "fields"),
    [
        ("act", {"op": "pause"}),
        ("ask", {"op": "cells", "of": "main"}),
        ("open-branch", {"branch": "main"}),
    ],
)
def test_a_session_that_is_not_on_record_is_not_looked_for(
    server: Server, route: str, session: str, fields: dict[str, Any]
) -> None:
    answer = server.post(f"/branchpoint/{route}", session=session, **fields)
    assert answer.status == 404
    assert "there is no session" in answer.json["message"]


def logged_in(server: Server) -> tuple[dict[str, str], str]:
    """The headers of a page whose user has logged in, and what it proves itself with."""
    cookies: dict[str, str] = {}
    for path in ("/login", f"/login?token={server.token}"):
        told = "; ".join(f"{name}={value}" for name, value in cookies.items())
        for name, line in server.ask("GET", path, headers={"Cookie": told}).all_headers:
            if name.lower() == "set-cookie":
                cookie, _, value = line.partition(";")[0].partition("=")
                cookies[cookie] = value
    told = "; ".join(f"{name}={value}" for name, value in cookies.items())
    return {"Cookie": told}, cookies["_xsrf"]


@pytest.mark.parametrize("route", ["act", "ask", "open-branch"])
def test_a_page_of_another_site_can_do_nothing_with_the_users_cookies(
    server: Server, route: str
) -> None:
    headers, _ = logged_in(server)
    body = json.dumps(SWITCH).encode()
    plain = {**headers, "Content-Type": "text/plain"}
    assert server.ask("POST", f"/branchpoint/{route}", body, plain).status == 403
    elsewhere = {**plain, "Origin": "https://elsewhere.example"}
    assert server.ask("POST", f"/branchpoint/{route}", body, elsewhere).status in (403, 404)


@in_a_loop
async def test_a_page_of_this_server_proves_itself_with_its_cookie(server: Server) -> None:
    headers, xsrf = logged_in(server)
    body = json.dumps(SWITCH).encode()
    async with owner_of(server.home):
        answer = await asyncio.to_thread(
            server.ask, "POST", "/branchpoint/act", body, {**headers, "X-XSRFToken": xsrf}
        )
        assert answer.status == 200

"""What the routes that only read answer, and that nobody who is not logged in learns a thing."""

import asyncio
import json
from urllib.parse import quote

import pytest
from tests.architecture.house import ROOT
from tests.support.front_end import in_a_loop
from tests.unit.lineage.facts import SESSION, a_branch, a_checkpoint, a_session
from tests.unit.nbext.serving import Answer, Server, owner_of

from branchpoint_nbext.orders import ACTIONS, QUESTIONS
from branchpoint_vmruntime.lineage.journal import Journal

READ = [
    "sessions",
    f"view?session={SESSION}",
    "session-of?path=notebook.ipynb",
    f"lineage?session={SESSION}",
    f"lineage.svg?session={SESSION}",
    f"live?session={SESSION}",
]
WRITE = ["act", "ask", "open-branch"]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", READ + WRITE)
@pytest.mark.parametrize("token", ["", "token wrong"])
def test_who_is_not_logged_in_learns_nothing(
    server: Server, method: str, path: str, token: str
) -> None:
    headers = {"Authorization": token} if token else {}
    answer = server.ask(method, f"/branchpoint/{path}", b"{}", headers)
    assert answer.status == 403
    assert b"notebook.ipynb" not in answer.body


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("path", READ)
def test_nothing_can_be_written_where_there_is_only_to_read(server: Server, path: str) -> None:
    assert server.post(f"/branchpoint/{path}").status == 405


def test_where_no_session_has_been_the_list_is_empty(server: Server) -> None:
    answer = server.get("/branchpoint/sessions")
    assert (answer.status, answer.json) == (200, {"sessions": []})


def test_sessions_are_listed_at_a_glance(server: Server, journal: Journal) -> None:
    assert journal.sessions()
    (session,) = server.get("/branchpoint/sessions").json["sessions"]
    told = ("id", "open", "owner", "checkpoints", "branches", "path")
    assert [session[name] for name in told] == [SESSION, False, None, 1, 1, None]


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_a_session_that_is_open_is_listed_as_such(server: Server) -> None:
    async with owner_of(server.home):
        (session,) = (await server.get_beside("/branchpoint/sessions")).json["sessions"]
        assert (session["open"], session["owner"]) == (True, "script")


@pytest.mark.usefixtures("journal")
def test_a_list_that_is_the_same_still_is_not_told_again(server: Server) -> None:
    first = server.get("/branchpoint/sessions")
    known = tag_of(first)
    again = server.ask("GET", "/branchpoint/sessions", headers={**server.credentials, **known})
    assert (again.status, again.body) == (304, b"")
    assert tag_of(server.get("/branchpoint/sessions")) == known


@in_a_loop
async def test_a_list_is_told_again_once_something_is_another(
    server: Server, journal: Journal
) -> None:
    async def told(known: dict[str, str]) -> Answer:
        headers = {**server.credentials, **known}
        return await asyncio.to_thread(server.ask, "GET", "/branchpoint/sessions", None, headers)

    closed = tag_of(await told({}))
    async with owner_of(server.home):
        opened = await told(closed)
        assert opened.json["sessions"][0]["open"]
        assert (await told(tag_of(opened))).status == 304
    # Who has a session open is not on record, and whoever is killed writes nothing.
    assert not (await told(tag_of(opened))).json["sessions"][0]["open"]
    journal.add_checkpoint(a_checkpoint("fitted", "loaded"), advance=a_branch().name)
    saved = await told(closed)
    assert saved.json["sessions"][0]["checkpoints"] == 2
    journal.add_session(a_session("another", "/b.ipynb"))
    assert len((await told(tag_of(saved))).json["sessions"]) == 2


def tag_of(answer: Answer) -> dict[str, str]:
    """What asks for a list only if it is another than the one that was told."""
    return {"If-None-Match": dict(answer.all_headers)["Etag"]}


def test_a_lineage_is_what_the_journal_holds_now(server: Server, journal: Journal) -> None:
    journal.add_checkpoint(a_checkpoint("fitted", "loaded"), advance=a_branch().name)
    lineage = server.get(f"/branchpoint/lineage?session={SESSION}").json
    assert [each["label"] for each in lineage["checkpoints"]] == ["base", "loaded", "fitted"]
    assert [each["head"] for each in lineage["branches"]] == ["fitted"]


@pytest.mark.usefixtures("journal")
def test_the_picture_is_an_svg(server: Server) -> None:
    answer = server.get(f"/branchpoint/lineage.svg?session={SESSION}")
    assert (answer.status, answer.kind) == (200, "image/svg+xml")
    assert b"<svg" in answer.body


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("route", ["lineage", "view", "live"])
@pytest.mark.parametrize(
    "session", ["nobody", "50% <b>\u00e4\r\nX-Injected: 1", f"../run/{SESSION}", "/etc/passwd", ""]
)
def test_an_unknown_session_is_not_found_and_named(
    server: Server, route: str, session: str
) -> None:
    answer = server.get(f"/branchpoint/{route}?session={quote(session, safe='')}")
    assert answer.status == 404
    assert "there is no session" in answer.json["message"]
    assert "50%%" not in answer.json["message"]
    assert "X-Injected" not in dict(answer.all_headers)


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("route", ["lineage", "view", "live"])
def test_a_request_without_a_session_is_a_bad_request(server: Server, route: str) -> None:
    assert server.get(f"/branchpoint/{route}").status == 400


@pytest.mark.usefixtures("journal")
def test_a_session_that_is_closed_is_shown_as_it_is_on_record(server: Server) -> None:
    view = server.get(f"/branchpoint/view?session={SESSION}").json
    assert (view["session"], view["owner"], view["version"]) == (SESSION, None, 0)
    assert [point["facts"]["label"] for point in view["checkpoints"]] == ["base", "loaded"]
    # Nothing has it open, so nothing of it lives.
    assert [branch["facts"]["state"] for branch in view["branches"]] == ["lost"]


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_a_session_that_is_open_is_shown_as_its_owner_tells(server: Server) -> None:
    async with owner_of(server.home) as owner:
        owner.become(current="ridge")
        view = (await server.get_beside(f"/branchpoint/view?session={SESSION}")).json
        assert (view["current"], view["version"]) == ("ridge", 2)


def test_a_damaged_store_is_told_in_words_without_a_traceback(server: Server) -> None:
    server.home.database.write_bytes(b"no database" * 1000)
    answer = server.get(f"/branchpoint/view?session={SESSION}")
    assert answer.status == 422
    assert "not a whole" in answer.json["message"]
    assert answer.json["hint"]


def test_a_session_can_be_asked_for_what_pages_may_want_and_no_more() -> None:
    assert set(ACTIONS) == {
        *("checkpoint", "fork", "rollback", "switch", "keep", "drop", "pause", "resume"),
        *("pin", "annotate"),
    }
    assert set(QUESTIONS) == {"preview", "diff", "cells"}


def test_the_installed_configuration_turns_the_extension_on() -> None:
    config = json.loads((ROOT / "nbext" / "jupyter-config" / "branchpoint.json").read_text())
    assert config == {"ServerApp": {"jpserver_extensions": {"branchpoint_nbext": True}}}

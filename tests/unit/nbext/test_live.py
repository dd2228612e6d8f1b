"""Websockets on a real server: pushed at once and at each change, and none without leave."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import Mock

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.lineage.facts import SESSION, a_branch, a_checkpoint, a_session
from tests.unit.nbext.serving import (
    Server,
    closed,
    jupyter_server,
    next_message,
    owner_of,
    pushed,
    until,
)
from tornado.httpclient import HTTPClientError
from tornado.websocket import WebSocketClientConnection

from branchpoint_nbext.living import FAILED, GONE, LEAVING, MAX_SOCKETS, Live, LiveHandler
from branchpoint_nbext.watching import Watching
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage.journal import Journal


@asynccontextmanager
async def followed(server: Server) -> AsyncGenerator[WebSocketClientConnection]:
    socket = await server.live()
    try:
        yield socket
    finally:
        here_first = socket.close_code is None
        socket.close()
        # Once it was closed by the other end nothing comes any more.
        if here_first:
            await closed(socket)


async def refused(server: Server, **headers: str) -> int:
    """The status with which a websocket is refused."""
    with pytest.raises(HTTPClientError) as refusal:
        await server.live(**headers)
    return refusal.value.code


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_who_is_not_logged_in_gets_no_websocket(server: Server) -> None:
    assert await refused(server, Authorization="token wrong") == 403
    assert await refused(server, Cookie="_xsrf=1") == 403


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_a_page_of_another_site_gets_no_websocket_with_the_users_cookies(
    server: Server,
) -> None:
    answer = await asyncio.to_thread(server.ask, "GET", f"/login?token={server.token}")
    cookie = dict(answer.all_headers)["Set-Cookie"].partition(";")[0]
    assert await refused(server, Cookie=cookie, Origin="https://elsewhere.example") == 403
    socket = await server.live(Cookie=cookie, Origin=f"http://127.0.0.1:{server.port}")
    socket.close()
    await closed(socket)


@in_a_loop
async def test_a_session_that_is_not_on_record_gets_no_websocket(server: Server) -> None:
    assert await refused(server, **server.credentials) == 404


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_a_session_is_pushed_at_once_and_as_it_changes(server: Server) -> None:
    async with owner_of(server.home) as owner, followed(server) as socket:
        assert (await pushed(socket))["current"] == "main"
        owner.become(current="ridge")
        assert (await until(socket, current="ridge"))["version"] == 2


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_figures_that_move_by_themselves_are_pushed_without_the_rest(server: Server) -> None:
    async with owner_of(server.home) as owner, followed(server) as socket:
        await pushed(socket)
        owner.figures = {"main": {"own_bytes": 4096}}
        assert await next_message(socket) == {"figures": owner.figures}
        owner.become(current="ridge")
        assert (await next_message(socket))["view"]["current"] == "ridge"


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_what_a_page_says_that_makes_no_sense_is_passed_over(server: Server) -> None:
    async with owner_of(server.home) as owner, followed(server) as socket:
        for said in ("", "[" * 90, '{"seen": 1}', '{"seen": false}' + " " * 1000, b"\xff", "null"):
            await socket.write_message(said, binary=isinstance(said, bytes))
        await socket.write_message('{"seen": false}')
        owner.become(current="ridge")
        await until(socket, current="ridge")


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_two_pages_are_shown_the_same(server: Server) -> None:
    async with owner_of(server.home) as owner, followed(server) as one, followed(server) as other:
        owner.become(current="ridge")
        assert await until(one, current="ridge") == await until(other, current="ridge")


@in_a_loop
async def test_a_closed_session_is_pushed_as_its_record_changes(
    server: Server, journal: Journal
) -> None:
    async with followed(server) as socket:
        assert (await pushed(socket))["owner"] is None
        journal.add_checkpoint(a_checkpoint("fitted", "loaded"), advance=a_branch().name)
        labels = [point["facts"]["label"] for point in (await pushed(socket))["checkpoints"]]
        assert labels == ["base", "loaded", "fitted"]


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_an_owner_that_comes_and_goes_is_noticed(server: Server) -> None:
    async with followed(server) as socket:
        assert (await pushed(socket))["owner"] is None
        async with owner_of(server.home) as owner:
            owner.view["owner"] = "kernel"
            await until(socket, owner="kernel")
        view = await until(socket, owner=None)
        assert (view["version"], len(view["checkpoints"])) == (0, 2)


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_an_owner_of_another_version_is_shown_as_on_record(server: Server) -> None:
    async with owner_of(server.home) as owner, followed(server) as socket:
        owner.knows_views = False
        view = await until(socket, version=0)
        assert view["owner"] == "script"


@in_a_loop
async def test_a_session_that_is_removed_is_told_to_be_gone(
    server: Server, journal: Journal
) -> None:
    async with followed(server) as socket:
        await pushed(socket)
        journal.remove_session(journal.sessions()[0].id)
        code, reason = await closed(socket)
        assert code == GONE
        assert "there is no session" in str(reason)


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_a_session_that_cannot_be_read_closes_its_websocket_in_words(server: Server) -> None:
    async with followed(server) as socket:
        await pushed(socket)
        damaged = server.home.root / "damaged"
        damaged.write_bytes(b"no database" * 1000)
        for beside in server.home.root.glob("lineage.db-*"):
            beside.unlink()
        damaged.rename(server.home.database)
        code, reason = await closed(socket)
        assert code == FAILED
        assert "is not a whole" in str(reason)


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_no_more_pages_are_taken_than_there_is_room_for(server: Server) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(MAX_SOCKETS):
            await pushed(await stack.enter_async_context(followed(server)))
        assert await refused(server, **server.credentials) == 429
    # One that goes makes room for another.
    async with followed(server) as socket:
        await pushed(socket)


@dataclass(frozen=True)
class Stopped:
    """What a page heard of a server that was stopped, and what that one has logged."""

    code: int | None
    log: str


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    """A server that lets nobody in who is not logged in, once it has ended with a page open."""
    folder = tmp_path_factory.mktemp("stopped")
    (folder / "home").mkdir()
    with Journal.open(folder / "home" / "lineage.db") as journal:
        journal.add_session(a_session())

    async def stop(server: Server) -> int | None:
        async with owner_of(server.home), followed(server) as socket:
            await pushed(socket)
            server.process.terminate()
            code, _ = await closed(socket)
            await asyncio.to_thread(server.process.wait)
            return code

    strictly: dict[str, Any] = {"ServerApp.allow_unauthenticated_access": False}
    with jupyter_server(folder, **strictly) as server:
        return Stopped(asyncio.run(stop(server)), server.log.read_text())


def test_a_server_that_stops_closes_its_websockets(stopped: Stopped) -> None:
    assert stopped.code == LEAVING


@in_a_loop
async def test_nothing_is_pushed_to_a_page_that_comes_back_while_the_server_stops(
    home: Home,
) -> None:
    live = Live(Watching(lambda: home))
    await live.close()
    came_back = Mock(spec=LiveHandler)
    live.add(came_back, a_session().id)
    came_back.close.assert_called_once_with(LEAVING, "the Jupyter server is shutting down")
    assert f"branchpoint-live-{SESSION}" not in {it.get_name() for it in asyncio.all_tasks()}


def test_a_server_that_stops_leaves_nothing_under_way(stopped: Stopped) -> None:
    assert "Shutting down 1 extension" in stopped.log
    assert "Task was destroyed" not in stopped.log
    assert "Traceback" not in stopped.log


def test_a_strict_server_warns_of_no_route_of_ours(stopped: Stopped) -> None:
    assert "branchpoint_nbext | extension was successfully loaded" in stopped.log
    assert "JupyterServerAuthWarning" not in stopped.log

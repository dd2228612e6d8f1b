"""Watchers of sessions: one for all that follow, who hear of the newest, and none left over."""

import asyncio
import errno
import json
import logging
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.lineage.facts import SESSION, a_base, a_branch, a_session
from tests.unit.nbext.serving import Owner, owner_of

from branchpoint_nbext.views import RecordMarks
from branchpoint_nbext.watching import Following, Watching
from branchpoint_vmruntime.errors import BranchpointError, UnknownNameError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.lineage.journal import Journal


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path, tmp_path / "run")
    home.ensure()
    return home


@pytest.fixture
def journal(home: Home) -> Generator[Journal]:
    with Journal.open(home.database) as journal:
        journal.add_session(a_session())
        journal.add_checkpoint(a_base(), advance=None)
        journal.put_branch(a_branch())
        yield journal


def tasks() -> list[str]:
    """What is under way beside the test, by name."""
    return sorted(
        it.get_name() for it in asyncio.all_tasks() if it.get_name().startswith("branchpoint")
    )


async def states(following: Following) -> list[str]:
    view = json.loads(await following.newest())["view"]
    return [branch["facts"]["state"] for branch in view["branches"]]


async def current(following: Following) -> str:
    return json.loads(await following.newest())["view"]["current"]


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_a_watcher_ends_with_the_last_that_follows(home: Home) -> None:
    watching = Watching(lambda: home)
    async with watching.following(a_session().id) as one:
        async with watching.following(a_session().id) as other:
            assert await one.newest() == await other.newest()
            assert tasks() == [f"branchpoint-watch-{SESSION}"]
        assert tasks() == [f"branchpoint-watch-{SESSION}"]
    assert tasks() == []
    await watching.close()


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_no_watcher_outlives_the_closing(home: Home) -> None:
    watching = Watching(lambda: home)
    async with watching.following(a_session().id) as following:
        await following.newest()
        await watching.close()
        assert tasks() == []


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_figures_are_told_to_who_is_seen_and_seldom_to_who_is_not(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchpoint_nbext.watching.QUICK_S", 0.05)
    # However slow the host is, whoever is not seen is told of nothing within the test.
    monkeypatch.setattr("branchpoint_nbext.watching.SLOW_S", 3600.0)
    watching = Watching(lambda: home)
    is_seen = False
    async with (
        owner_of(home) as owner,
        watching.following(a_session().id, lambda: is_seen) as hidden,
        watching.following(a_session().id) as shown,
    ):
        for each in (hidden, shown):
            assert "view" in json.loads(await each.newest())
        owner.figures = {"main": {"tokens_in": 1}}
        for each in (hidden, shown):
            assert json.loads(await each.newest()) == {"figures": owner.figures}
        owner.figures = {"main": {"tokens_in": 2}}
        assert json.loads(await shown.newest()) == {"figures": owner.figures}
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await hidden.newest()
        is_seen = True
        assert json.loads(await hidden.newest()) == {"figures": owner.figures}
        # Whoever comes later is told of the view and of what it has come to.
        async with watching.following(a_session().id) as late:
            assert "view" in json.loads(await late.newest())
            assert json.loads(await late.newest()) == {"figures": owner.figures}
    await watching.close()


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_who_takes_patches_is_told_what_is_another_than_in_the_view_before(
    home: Home,
) -> None:
    watching = Watching(lambda: home)
    async with (
        owner_of(home) as owner,
        watching.following(a_session().id, by_patches=True) as quick,
        watching.following(a_session().id, by_patches=True) as slow,
        watching.following(a_session().id) as whole,
    ):
        for each in (quick, slow):
            assert "view" in json.loads(await each.newest())
        owner.become(current="ridge")
        told = {"patch": {"version": {"value": 2}, "current": {"value": "ridge"}}}
        assert json.loads(await quick.newest()) == told
        owner.become(current="forest")
        assert json.loads(await quick.newest())["patch"]["current"] == {"value": "forest"}
        # Of what was told meanwhile it has heard nothing.
        assert await current(slow) == "forest"
        assert await current(whole) == "forest"
        owner.become(current="boost")
        assert json.loads(await slow.newest())["patch"]["current"] == {"value": "boost"}
    await watching.close()


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_figures_that_nobody_sees_are_hardly_asked_for(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchpoint_nbext.watching.QUICK_S", 0.05)
    watching = Watching(lambda: home)
    async with (
        owner_of(home) as owner,
        watching.following(a_session().id, lambda: False) as hidden,
    ):
        await hidden.newest()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await hidden.newest()
        assert owner.figures_asked == 0
        owner.become(current="ridge")
        assert await current(hidden) == "ridge"
    await watching.close()


async def change(owner: Owner, following: Following, times: int) -> None:
    """Become one after another, and wait until the watcher has seen the last."""
    for number in range(times):
        owner.become(current=f"branch-{number}")
    while await current(following) != f"branch-{times - 1}":
        pass


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_whoever_is_slow_hears_of_the_newest_alone(home: Home) -> None:
    watching = Watching(lambda: home)
    async with (
        owner_of(home) as owner,
        watching.following(a_session().id) as slow,
        watching.following(a_session().id) as quick,
    ):
        assert await current(slow) == "main"
        for times in (3, 6, 9):
            await change(owner, quick, times)
        assert await current(slow) == "branch-8"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await slow.newest()
    await watching.close()


@in_a_loop
async def test_whoever_follows_what_is_on_record_no_longer_hears_so(
    home: Home, journal: Journal
) -> None:
    watching = Watching(lambda: home)
    async with watching.following(a_session().id) as following:
        await following.newest()
        journal.remove_session(a_session().id)
        with pytest.raises(UnknownNameError):
            await following.newest()
        # Nor is one that has failed taken for one that watches.
        async with watching.following(a_session().id) as later:
            with pytest.raises(UnknownNameError):
                await later.newest()
    await watching.close()
    assert tasks() == []


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_whoever_follows_hears_of_what_nobody_foresaw_and_does_not_wait_for_ever(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    watching = Watching(lambda: home)
    async with watching.following(a_session().id) as following:
        await following.newest()

        async def fails(*_: object) -> object:
            raise OSError(errno.EMFILE, "too many open files")

        monkeypatch.setattr(RecordMarks, "mark", fails)
        async with asyncio.timeout(120):
            with pytest.raises(BranchpointError, match="too many open files"):
                await following.newest()
    await watching.close()


@pytest.mark.usefixtures("journal")
@in_a_loop
async def test_an_owner_that_tells_what_is_no_view_is_shown_as_on_record(home: Home) -> None:
    watching = Watching(lambda: home)
    async with owner_of(home) as owner:
        owner.view = {"session": SESSION}
        owner.tells_version = False
        async with watching.following(a_session().id) as following, asyncio.timeout(120):
            while "branches" not in json.loads(await following.newest())["view"]:
                pass
    await watching.close()


@in_a_loop
async def test_what_was_lent_is_back_once_its_borrower_is_closed(
    home: Home, journal: Journal
) -> None:
    borrower = a_session("s-borrower", "/home/me/notebook-main.ipynb")
    lent = replace(a_branch(state=BranchState.LENT), lent_to=borrower.id)
    watching = Watching(lambda: home)
    async with owner_of(home, borrower.id):
        journal.lend(lent, borrower)
        async with watching.following(a_session().id) as following:
            assert await states(following) == ["lent"]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.0):
                    await following.newest()
    async with watching.following(a_session().id) as following:
        assert await states(following) == ["paused"]
    await watching.close()


@in_a_loop
async def test_a_mark_is_another_once_something_was_written(home: Home, journal: Journal) -> None:
    marks = RecordMarks()
    before = await marks.mark(home, a_session().id)
    assert await marks.mark(home, a_session().id) == before
    journal.put_branch(a_branch("ridge"))
    after = await marks.mark(home, a_session().id)
    assert after != before
    async with owner_of(home):
        assert await marks.mark(home, a_session().id) != after
    assert await marks.mark(home, a_session().id) == after
    await marks.close()


@in_a_loop
async def test_a_store_that_was_put_in_the_place_of_another_has_a_mark_of_its_own(
    home: Home, journal: Journal
) -> None:
    marks = RecordMarks()
    before = await marks.mark(home, a_session().id)
    journal.close()
    home.database.rename(home.root / "old")
    assert await marks.mark(home, a_session().id) != before
    with Journal.open(home.database):
        assert await marks.mark(home, a_session().id) != before
    await marks.close()

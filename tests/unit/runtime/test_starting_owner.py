"""What comes of starting an owner: what it says is heard, what it leaves is nothing."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.runtime.leftovers import a_home, is_running

from branchpoint_vmruntime import starting_owner
from branchpoint_vmruntime.control_facts import OpenSession, OwnerKind
from branchpoint_vmruntime.errors import HostError, ManifestError, SessionBusyError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.owner import start_owner

Says = Callable[[str], None]

_BEGIN = """
import json, os, sys, time
fd = int(next(word for word in sys.argv if word.startswith("--tell="))[7:])
def say(**words):
    os.write(fd, (json.dumps(words) + "\\n").encode())
say(pid=os.getpid())
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return a_home(tmp_path)


@pytest.fixture
def owner_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Says:
    """Have another program started in place of an owner."""

    def says(code: str) -> None:
        script = tmp_path / "owner.py"
        script.write_text(_BEGIN + code)
        real = starting_owner._command  # pyright: ignore[reportPrivateUsage]

        def command(*arguments: object, **options: bool) -> list[str]:
            words = real(*arguments, **options)  # pyright: ignore[reportArgumentType]
            start = words.index("branchpoint_vmruntime.owner")
            return ["setsid", "--fork", sys.executable, str(script), *words[start + 1 :]]

        monkeypatch.setattr(starting_owner, "_command", command)

    return says


class Heard:
    """Implements `image.progress.Progress`."""

    def __init__(self) -> None:
        self.words: list[object] = []

    def step(self, title: str) -> None:
        """A step."""
        self.words.append(title)

    def advance(self, fraction: float) -> None:
        """So far."""
        self.words.append(fraction)

    def done(self, summary: str) -> None:
        """Over."""
        self.words.append(summary)


@in_a_loop
async def test_an_owner_that_has_opened_its_session_goes_on(home: Home, owner_does: Says) -> None:
    owner_does(
        "say(open=dict(id='7f3c', key='größe', pid=os.getpid(), kind='owner'))\ntime.sleep(600)"
    )
    opened = await start_owner(home, key="größe")
    try:
        assert opened == OpenSession(id="7f3c", key="größe", pid=opened.pid, kind=OwnerKind.OWNER)
        assert is_running(opened.pid)
        assert os.getsid(opened.pid) != os.getsid(0)
    finally:
        os.kill(opened.pid, 9)


@in_a_loop
async def test_what_takes_long_is_told_as_it_goes_on(home: Home, owner_does: Says) -> None:
    owner_does(
        "say(step='image'); say(advance=0.5); say(done='built')\n"
        "say(open=dict(id='7f3c', key='a', pid=os.getpid()))"
    )
    heard = Heard()
    await start_owner(home, progress=heard)
    assert heard.words == ["image", 0.5, "built"]


@in_a_loop
async def test_what_the_owner_refuses_is_raised_as_it_was_there(
    home: Home, owner_does: Says
) -> None:
    owner_does(
        "say(error=dict(message='it is open', hint='close it', usage=False,"
        " kind='SessionBusyError'))"
    )
    with pytest.raises(SessionBusyError, match="it is open") as refused:
        await start_owner(home, key="a")
    assert refused.value.hint == "close it"


@in_a_loop
async def test_of_an_owner_that_just_ends_its_last_words_are_told(
    home: Home, owner_does: Says
) -> None:
    owner_does("sys.exit('no such thing')")
    with pytest.raises(HostError, match="ended before it had; it said: no such thing"):
        await start_owner(home)


@in_a_loop
async def test_an_owner_that_nobody_waits_for_any_more_is_ended(
    home: Home, owner_does: Says, tmp_path: Path
) -> None:
    owner_does("open('pid', 'w').write(str(os.getpid())); say(step='long'); time.sleep(600)")
    begun = asyncio.Event()

    class Noting(Heard):
        def step(self, title: str) -> None:
            begun.set()

    starting = asyncio.create_task(start_owner(home, progress=Noting()))
    await begun.wait()
    pid = int((home.root / "pid").read_text())
    assert is_running(pid)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    while is_running(pid):  # noqa: ASYNC110 (it is no child of ours)
        await asyncio.sleep(0.01)


@in_a_loop
async def test_a_manifest_that_says_what_cannot_be_is_refused_by_its_line(
    home: Home, tmp_path: Path
) -> None:
    manifest = tmp_path / "branchpoint.yaml"
    manifest.write_text("machine: huge\n")
    with pytest.raises(ManifestError, match=r"branchpoint\.yaml, line 1: 'huge': a machine is"):
        await start_owner(home, manifest=manifest)
    assert not home.database.exists()


@in_a_loop
async def test_a_host_without_an_image_is_told_and_nothing_is_left(home: Home) -> None:
    with pytest.raises(HostError) as refused:
        await start_owner(home, key="never")
    assert refused.value.hint
    assert not list(home.layers.glob("*/*"))
    assert not list(home.run.iterdir())

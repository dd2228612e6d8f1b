"""`branchpoint resume` of a session that nobody has open: what opens it, and what is left then."""

import asyncio
import os
import signal
from collections.abc import Callable, Generator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.live_kernel import wait_until
from tests.unit.cli.staffed import ID, KEY, Staff, staffed

from branchpoint_cli import resume
from branchpoint_cli.__main__ import main
from branchpoint_cli.commands import INTERRUPTED
from branchpoint_cli.origin import Origin, origin_of
from branchpoint_vmruntime.control_facts import OpenSession
from branchpoint_vmruntime.errors import MachineStartError, StorageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchState, SessionId, SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal

Said = Callable[[], Any]
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Generator[list[Staff]]:
    """Has owners be threads of this process; those that were started."""
    staff: list[Staff] = []
    # Whose end nobody can wait for.
    monkeypatch.setattr("os.pidfd_open", gone)
    with ExitStack() as stack:

        async def start_owner(
            home: Home, *, manifest: Path | None, fresh: bool, **_: object
        ) -> OpenSession:
            staff.append(await asyncio.to_thread(stack.enter_context, staffed(home, fresh=fresh)))
            staff[-1].manifest = manifest
            return OpenSession(id=ID, key=KEY, pid=os.getpid())

        monkeypatch.setattr(resume, "start_owner", start_owner)
        yield staff


def gone(_: int) -> int:
    raise ProcessLookupError


def left_paused(home: Home) -> None:
    """A session that is closed, with its branch saved."""
    with staffed(home):
        assert main(["pause"]) == 0


def is_closed(home: Home) -> bool:
    return wait_until(lambda: not home.control(ID).exists())


def on_record(home: Home) -> SessionRecord:
    with Journal.read(home.database) as journal:
        (session,) = journal.sessions()
    return session


def state_of_main(home: Home) -> BranchState:
    with Journal.read(home.database) as journal:
        return next(it.state for it in journal.branches(SessionId(ID)) if it.name == "main")


def test_a_session_that_is_closed_is_opened_and_stays_so(
    own_home: Home, opened: list[Staff], capsys: Captured
) -> None:
    left_paused(own_home)
    assert main(["resume"]) == 0
    assert main(["checkpoint", "here"]) == 0
    assert len(opened) == 1
    assert "▶ main carries on from paused-main-1   awake in" in capsys.readouterr().out


def test_a_branch_that_was_not_saved_is_said_to_have_lost_what_it_did_since(
    own_home: Home, opened: list[Staff], capsys: Captured
) -> None:
    with staffed(own_home):
        assert main(["checkpoint", "fitted"]) == 0
    assert state_of_main(own_home) is BranchState.LOST
    assert main(["resume"]) == 0
    assert len(opened) == 1
    out = capsys.readouterr().out
    assert "▶ main carries on from fitted   awake in " in out
    assert "what it did after fitted is lost" in out


def test_a_session_is_opened_with_the_manifest_that_is_named_from_then_on(
    own_home: Home, opened: list[Staff], tmp_path: Path
) -> None:
    left_paused(own_home)
    manifest = tmp_path / "ein Ordner" / "branchpoint.yaml"
    manifest.parent.mkdir()
    assert main(["resume", "mian", "-f", str(manifest)]) == 3
    assert is_closed(own_home)
    assert origin_of(own_home, on_record(own_home)).manifest is None
    assert main(["resume", "-f", str(manifest)]) == 0
    assert [staff.manifest for staff in opened] == [manifest, manifest]
    origin = origin_of(own_home, on_record(own_home))
    assert origin == Origin(manifest=manifest, folder=manifest.parent)


def test_what_was_opened_for_a_branch_that_is_not_there_is_closed_again(
    own_home: Home, opened: list[Staff], capsys: Captured
) -> None:
    left_paused(own_home)
    assert main(["resume", "mian"]) == 3
    assert is_closed(own_home)
    assert len(opened) == 1
    assert "did you mean 'main'?" in capsys.readouterr().err
    assert state_of_main(own_home) is BranchState.PAUSED


def test_what_was_opened_for_a_branch_that_does_not_wake_is_closed_again(
    own_home: Home, opened: list[Staff], monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    left_paused(own_home)
    real = Staff.__init__

    def failing(staff: Staff) -> None:
        real(staff)
        staff.workshop.wake_errors["main"] = MachineStartError("QEMU went", hint="see its log")

    monkeypatch.setattr(Staff, "__init__", failing)
    assert main(["resume"]) == 1
    assert is_closed(own_home)
    assert len(opened) == 1
    assert "QEMU went" in capsys.readouterr().err
    assert state_of_main(own_home) is BranchState.PAUSED


def test_what_was_opened_is_closed_again_when_control_c_ends_the_wait_for_it(
    own_home: Home, opened: list[Staff], monkeypatch: pytest.MonkeyPatch
) -> None:
    left_paused(own_home)
    real = resume.SessionControl.resume

    async def interrupted(control: resume.SessionControl, name: str | None = None) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return await real(control, name)

    monkeypatch.setattr(resume.SessionControl, "resume", interrupted)
    assert main(["resume"]) == INTERRUPTED
    assert is_closed(own_home)
    assert len(opened) == 1
    assert state_of_main(own_home) is BranchState.PAUSED


def test_what_cannot_be_closed_again_is_said_to_be_open(
    own_home: Home, opened: list[Staff], monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    async def refused(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    left_paused(own_home)
    monkeypatch.setattr(resume.SessionControl, "end", refused)
    assert main(["resume", "mian"]) == 3
    assert len(opened) == 1
    assert f"branchpoint close --session {ID}" in capsys.readouterr().err


def test_a_session_that_another_has_open_is_left_open(own_home: Home, capsys: Captured) -> None:
    with staffed(own_home):
        assert main(["resume", "mian"]) == 3
        assert main(["checkpoint", "here"]) == 0
    assert "● here" in capsys.readouterr().out


def test_a_session_without_a_branch_begins_with_a_fresh_machine(
    own_home: Home, opened: list[Staff], said: Said
) -> None:
    with Journal.open(own_home.database) as journal:
        now = datetime.now(UTC)
        journal.add_session(SessionRecord(id=SessionId(ID), key=KEY, created_at=now))
    assert main(["resume", "--json"]) == 0
    assert len(opened) == 1
    report = said()
    assert report["lost"] is False
    assert (report["branch"]["name"], report["branch"]["state"]) == ("main", "live")
    assert (report["checkpoint"]["label"], report["away_s"]) == ("base", 0.0)

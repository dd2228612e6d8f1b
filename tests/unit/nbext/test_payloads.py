"""What the routes answer with can be sent as JSON and says what the journal says."""

import json
from dataclasses import replace

from tests.unit.lineage.facts import (
    DAY,
    SESSION,
    a_base,
    a_branch,
    a_checkpoint,
    a_session,
    an_operation,
)

from branchpoint_nbext.payloads import lineage_payload, overview_payload
from branchpoint_vmruntime.lineage import BranchState, Cell, Moment
from branchpoint_vmruntime.overview import Overview, SessionOverview, SpentSoFar


def glance(session: str) -> SessionOverview:
    return SessionOverview(
        id=session,
        key=f"{session}.ipynb",
        owner=None,
        created_at=DAY,
        current="main",
        branches=(a_branch(), a_branch("ridge", state=BranchState.DROPPED)),
        checkpoints=2,
        newest_at=None,
        machines=0,
        own_bytes=0,
        shared_bytes=0,
        disk_bytes=4096,
        spent=SpentSoFar(),
    )


def test_sessions_keep_their_order() -> None:
    seen = Overview(sessions=(glance(SESSION), glance("session-2")), leaks=())
    payload = overview_payload(seen, lambda key: key)
    assert [session["id"] for session in payload["sessions"]] == [SESSION, "session-2"]


def test_a_session_at_a_glance_is_told_with_its_notebook_and_what_is_left_of_it() -> None:
    seen = Overview(sessions=(glance(SESSION),), leaks=())
    (told,) = overview_payload(seen, lambda key: f"notes/{key}")["sessions"]
    assert (told["path"], told["branches"], told["disk_bytes"]) == (
        f"notes/{SESSION}.ipynb",
        1,
        4096,
    )


def test_a_lineage_survives_json() -> None:
    payload = lineage_payload(
        a_session(), [a_base(), a_checkpoint("loaded")], [a_branch()], [an_operation()]
    )
    assert json.loads(json.dumps(payload)) == payload


def test_a_checkpoint_is_told_with_its_cost_and_its_place() -> None:
    payload = lineage_payload(a_session(), [a_checkpoint("loaded")], [], [])
    (checkpoint,) = payload["checkpoints"]
    assert checkpoint["parent"] == "base0000"
    assert checkpoint["paused_ms"] == 46.0
    assert checkpoint["kind"] == "user"


def test_a_checkpoint_is_told_with_the_cell_it_belongs_to() -> None:
    cell = Cell(id="c-1", count=4, source="fit()")
    points = [a_base(), replace(a_checkpoint("loaded"), moment=Moment(count=4, cell=cell))]
    told = lineage_payload(a_session(), points, [], [])["checkpoints"]
    assert [point["cell"] for point in told] == [
        None,
        {"id": "c-1", "count": 4, "source": "fit()"},
    ]


def test_times_are_written_with_their_offset() -> None:
    payload = lineage_payload(a_session(), [], [a_branch()], [])
    assert payload["branches"][0]["created_at"] == DAY.isoformat() == "2026-03-01T12:00:00+00:00"

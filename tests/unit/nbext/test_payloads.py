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

from branchpoint_nbext.payloads import lineage_payload, sessions_payload
from branchpoint_vmruntime.lineage import Cell, Moment


def test_sessions_keep_their_order() -> None:
    payload = sessions_payload([a_session(), a_session("session-2", "other.ipynb")])
    assert [session["id"] for session in payload["sessions"]] == [SESSION, "session-2"]


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

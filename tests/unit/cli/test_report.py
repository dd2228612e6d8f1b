"""What is read out of an executed notebook."""

import csv
import io
from typing import Any

from branchpoint_cli.report import (
    HEADINGS,
    RECORD_TYPE,
    as_csv,
    as_markdown,
    cost_rows,
    failure,
    records,
)
from branchpoint_kernel.records import RECORD_TYPE as PUBLISHED_TYPE

CHECKPOINT: dict[str, Any] = {
    "op": "checkpoint",
    "session": "session-1",
    "branch": "main",
    "checkpoint": {
        "label": "loaded",
        "paused_ms": 46.5,
        "memory_bytes": 38_000_000,
        "disk_bytes": 200_000,
    },
    "branches": [{"name": "main", "memory": {"own": 60_000_000, "shared": 400_000_000}}],
    "phases_ms": {"freeze": 11.0, "copy": 20.5},
    "total_ms": 120.25,
    "memory": {"own": 60_000_000, "shared": 400_000_000},
}
FORK: dict[str, Any] = {
    "op": "fork",
    "session": "session-1",
    "branch": "main",
    "checkpoint": {"label": "loaded", "paused_ms": 46.5, "memory_bytes": 38_000_000},
    "branches": [
        {"name": "main", "memory": None},
        {"name": "ridge", "memory": {"own": 9_000_000, "shared": 412_000_000}},
    ],
    "phases_ms": {"spawn": 30.0},
    "total_ms": 1410.0,
    "memory": None,
    "made": ["ridge"],
    "awake_ms": {"ridge": 98.0},
}
RUNS: dict[str, Any] = {
    "op": "branch",
    "session": "session-1",
    "branch": "main",
    "total_ms": 320.0,
    "runs": [
        {"name": "ridge", "status": "ok", "elapsed_ms": 210.0, "failure": None},
        {
            "name": "boost",
            "status": "error",
            "elapsed_ms": 310.0,
            "failure": "AssertionError: the counter says 2",
        },
    ],
}
LISTING = {"op": "branches", "session": "session-1", "branch": "main", "total_ms": None}


def shown(content: dict[str, Any]) -> dict[str, Any]:
    data = {RECORD_TYPE: content, "text/plain": "..."}
    return {"output_type": "display_data", "data": data, "metadata": {}}


def a_notebook(*outputs: dict[str, Any]) -> dict[str, Any]:
    cells: list[dict[str, Any]] = [{"cell_type": "markdown", "id": "words", "source": "# A"}]
    for number, output in enumerate(outputs):
        cells.append({"cell_type": "code", "id": f"cell-{number}", "outputs": [output]})
    return {"cells": cells}


def test_the_record_type_is_the_one_the_kernel_publishes() -> None:
    assert RECORD_TYPE == PUBLISHED_TYPE


def test_records_come_in_the_order_of_the_cells() -> None:
    printed = {"output_type": "stream", "name": "stdout", "text": "hello"}
    found = records(a_notebook(shown(CHECKPOINT), printed, shown(FORK)))
    assert [(each.cell, each.op) for each in found] == [
        ("cell-0", "checkpoint"),
        ("cell-2", "fork"),
    ]
    assert found[0].session == "session-1"


def test_a_notebook_without_outputs_has_no_records() -> None:
    assert records(a_notebook()) == []


def test_a_checkpoint_costs_its_pause_and_its_new_data() -> None:
    (row,) = cost_rows(records(a_notebook(shown(CHECKPOINT))))
    assert (row.op, row.subject) == ("checkpoint", "loaded")
    assert row.total_ms == 120.25
    assert row.paused_ms == 46.5
    assert row.new_bytes == 38_200_000


def test_a_fork_has_a_row_for_every_machine_it_woke() -> None:
    fork, ridge = cost_rows(records(a_notebook(shown(FORK))))
    assert (fork.op, fork.total_ms) == ("fork", 1410.0)
    assert (ridge.op, ridge.subject, ridge.total_ms) == ("awake", "ridge", 98.0)
    assert (ridge.own_bytes, ridge.shared_bytes) == (9_000_000, 412_000_000)


def test_a_fork_is_not_charged_the_pause_of_the_checkpoint_it_starts_from() -> None:
    fork, _ = cost_rows(records(a_notebook(shown(FORK))))
    assert fork.paused_ms is None
    assert fork.new_bytes is None


def test_a_listing_costs_nothing() -> None:
    assert cost_rows(records(a_notebook(shown(LISTING)))) == []


def test_the_csv_has_plain_numbers_and_a_column_for_each_phase() -> None:
    rows = cost_rows(records(a_notebook(shown(CHECKPOINT), shown(FORK))))
    first, second, third = csv.DictReader(io.StringIO(as_csv(rows)))
    assert float(first["total_ms"]) == 120.25
    assert int(first["new_bytes"]) == 38_200_000
    assert (first["freeze_ms"], first["spawn_ms"]) == ("11.000", "")
    assert float(second["spawn_ms"]) == 30.0
    assert third["operation"] == "awake"


def test_the_markdown_table_is_one_line_a_row() -> None:
    rows = cost_rows(records(a_notebook(shown(CHECKPOINT))))
    heading, _, line, *_ = as_markdown(rows).splitlines()
    assert heading.count("|") == line.count("|") == len(HEADINGS) + 1
    assert "46 ms" in line
    assert "38 MB" in line


def test_a_pipe_in_a_label_does_not_break_the_markdown_table() -> None:
    odd = CHECKPOINT | {"checkpoint": CHECKPOINT["checkpoint"] | {"label": "a|b"}}
    assert r"a\|b" in as_markdown(cost_rows(records(a_notebook(shown(odd)))))


def test_the_failure_is_the_first_error_with_its_cell() -> None:
    error = {"output_type": "error", "ename": "AssertionError", "evalue": "not the same page"}
    found = failure(a_notebook(shown(CHECKPOINT), error, error | {"evalue": "later"}))
    assert found is not None
    assert found.cell == "cell-1"
    assert found.message == "AssertionError: not the same page"


def test_a_proof_that_fails_in_one_branch_is_a_failure_that_names_it() -> None:
    found = failure(a_notebook(shown(RUNS)))
    assert found is not None
    assert found.message == "in branch boost: AssertionError: the counter says 2"


def test_running_a_cell_in_branches_has_a_row_for_each() -> None:
    rows = cost_rows(records(a_notebook(shown(RUNS))))
    assert [(row.op, row.subject, row.total_ms) for row in rows] == [
        ("branch", "main", 320.0),
        ("run", "ridge", 210.0),
        ("run", "boost", 310.0),
    ]


def test_without_errors_there_is_no_failure() -> None:
    assert failure(a_notebook(shown(CHECKPOINT))) is None

"""Costs as files: what is written is what other programs read back."""

import io
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import pandas as pd  # pyright: ignore[reportMissingTypeStubs]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.front_end import in_a_loop
from tests.unit.kernel.paper_session import SESSION, Asked, on_paper

from branchpoint_kernel.costs_csv import BRANCHES, OPERATIONS, branches_csv, operations_csv
from branchpoint_kernel.costs_rendering import BranchStanding, CostsTold
from branchpoint_vmruntime.errors import StorageError, UsageError
from branchpoint_vmruntime.ledger import Usage
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchState,
    CheckpointCost,
    Operation,
    SessionId,
)
from branchpoint_vmruntime.outside.costs import BranchCost

DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
numbers = st.floats(min_value=0, max_value=1e7).map(lambda number: round(number, 3))
operations = st.builds(
    Operation,
    session=st.just(SessionId(SESSION)),
    op=st.sampled_from(["checkpoint", "fork", "rollback", "pause"]),
    branch=texts.map(BranchName),
    checkpoint=st.none(),
    at=st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))])),
    total_ms=numbers,
    phases_ms=st.dictionaries(st.sampled_from(["freeze", "load-and-wake", "guest-clock"]), numbers),
)
costs = st.builds(
    BranchCost,
    branch=texts,
    tokens_in=st.integers(0, 10**9),
    micros=st.integers(0, 10**12),
    sent_bytes=st.integers(0, 10**12),
)


def columns(source: str | Path) -> dict[str, list[str]]:
    """A file, or what would be in it, as pandas reads it; what is empty as it is."""
    file = source if isinstance(source, Path) else io.StringIO(source)
    table = cast("Any", pd).read_csv(file, keep_default_na=False, dtype=str)
    return table.to_dict("list")


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@given(st.lists(operations, max_size=8))
def test_every_operation_is_read_back_as_it_was(done: Sequence[Operation]) -> None:
    found = columns(operations_csv(done, []))
    assert list(found)[: len(OPERATIONS)] == list(OPERATIONS)
    assert found["branch"] == [each.branch for each in done]
    assert [datetime.fromisoformat(at) for at in found["at"]] == [each.at for each in done]
    assert list(map(float, found["total_ms"])) == [each.total_ms for each in done]
    for phase in ("freeze", "load-and-wake", "guest-clock"):
        column = f"{phase.replace('-', '_')}_ms"
        values = [each.phases_ms.get(phase) for each in done]
        assert (column in found) == any(value is not None for value in values)
        if column in found:
            assert [float(value) if value else None for value in found[column]] == values


@given(st.lists(costs, max_size=6))
def test_every_branch_is_read_back_as_it_was(spent: Sequence[BranchCost]) -> None:
    rows = [
        BranchStanding(
            name=it.branch,
            state="live",
            lived_s=1,
            memory=None,
            disk_bytes=it.sent_bytes,
            forks=0,
            cost=it,
        )
        for it in spent
    ]
    told = CostsTold(rows=rows, gone=(), limits=(), currency="EUR")
    found = columns(branches_csv(told))
    assert list(found) == list(BRANCHES)
    assert found["branch"] == [it.branch for it in spent]
    assert list(map(int, found["tokens_in"])) == [it.tokens_in for it in spent]
    assert list(map(float, found["money"])) == [it.micros / 1e6 for it in spent]
    assert list(map(int, found["disk_bytes"])) == [it.sent_bytes for it in spent]
    assert set(found["own_bytes"]) <= {""}


def test_lines_end_as_the_standard_has_it() -> None:
    text = operations_csv([], [])
    assert text == ",".join(OPERATIONS) + "\r\n"


@in_a_loop
async def test_two_files_are_written_beside_the_notebook(
    tmp_path: Path,
) -> None:
    async with on_paper("main", "dropped", "gone") as session:
        saved = session.save("loaded")
        session.done = [_done("start"), replace(_done("checkpoint"), checkpoint=saved.id)]
        session.wrote("GET", "http://a.example.org/", branch="gone")
        session.save("tried", "dropped", cost=CheckpointCost(memory_bytes=7, disk_bytes=5))
        session.made["dropped"].state = BranchState.DROPPED
        del session.made["gone"]
        usage = Usage(model="m", tokens_in=120, tokens_out=30, micros=12_300)
        session.wrote("POST", "http://a.example.org/v1/chat", usage=usage)
        ask = Asked(session, tmp_path)
        told = await ask("%costs --csv costs.csv")
    assert "costs.csv" in told
    assert "2 operations" in told
    assert ask.record["files"] == [str(tmp_path / f"costs{it}.csv") for it in ("", "-branches")]
    done = columns(tmp_path / "costs.csv")
    assert (done["label"], done["paused_ms"]) == (["", "loaded"], ["", "1"])
    branches = columns(tmp_path / "costs-branches.csv")
    assert branches["branch"] == ["main", "dropped", "gone"]
    assert branches["state"] == ["live", "dropped", "gone"]
    assert branches["disk_bytes"] == ["0", "12", ""]
    assert (branches["tokens_in"][0], branches["money"][0]) == ("120", "0.0123")
    assert names_in(tmp_path) == {"costs.csv", "costs-branches.csv"}


@in_a_loop
async def test_what_it_wrote_itself_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    async with on_paper("main") as session:
        ask = Asked(session, tmp_path)
        await ask("%costs --csv costs.csv")
        session.done = [_done("start")]
        await ask("%costs --csv costs.csv")
        assert columns(tmp_path / "costs.csv")["operation"] == ["start"]
        beside = tmp_path / "costs-branches.csv"
        beside.write_text(beside.read_text().replace("disk_bytes,", ""))
        # Of a kernel before this one, which told of less.
        await ask("%costs --csv costs.csv")
        assert columns(beside)["disk_bytes"] == ["0"]
        other = tmp_path / "costs-branches.csv"
        other.write_text("mine,alone\n")
        with pytest.raises(UsageError, match=r"costs-branches\.csv' that %costs did not write"):
            await ask("%costs --csv costs.csv")
        assert other.read_text() == "mine,alone\n"
        await ask("%costs --csv costs.csv --force")
        assert columns(other)["branch"] == ["main"]


@in_a_loop
async def test_a_folder_gets_files_of_the_usual_names(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    async with on_paper("main") as session:
        await Asked(session, tmp_path)("%costs --csv results/")
    assert names_in(tmp_path / "results") == {"costs.csv", "costs-branches.csv"}


@in_a_loop
async def test_a_folder_that_is_not_there_is_said_in_words(tmp_path: Path) -> None:
    async with on_paper("main") as session:
        with pytest.raises(StorageError, match="could not be written"):
            await Asked(session, tmp_path)("%costs --csv nowhere/costs.csv")


@in_a_loop
async def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "costs.csv")
    async with on_paper("main") as session:
        with pytest.raises(UsageError, match="did not write"):
            await Asked(session, tmp_path)("%costs --csv costs.csv")


@in_a_loop
async def test_code_in_a_machine_writes_no_such_files(tmp_path: Path) -> None:
    async with on_paper("main") as session:
        with pytest.raises(UsageError, match="only a cell of the notebook"):
            await Asked(session, tmp_path)("%costs --csv costs.csv", inside="main")
    assert not names_in(tmp_path)


@in_a_loop
async def test_the_table_comes_with_a_picture_that_has_words(tmp_path: Path) -> None:
    async with on_paper("main") as session:
        session.done = [_done("start")]
        ask = Asked(session, tmp_path)
        assert "lived" in await ask("%costs")
        assert ask.picture is not None
        shown = await ask.picture()
    assert shown.data["image/png"].startswith("iVBOR")
    assert "start 100 ms, once" in shown.data["text/plain"]
    assert shown.metadata["image/png"]["alt"] == shown.data["text/plain"]


@in_a_loop
async def test_charts_that_cannot_be_drawn_leave_the_table_alone(
    tmp_path: Path,
) -> None:
    async with on_paper("main") as session:
        session.done = [replace(_done("start"), at=None)]
        ask = Asked(session, tmp_path)
        assert "lived" in await ask("%costs")
        assert ask.picture is not None
        shown = await ask.picture()
    assert list(shown.data) == ["text/plain"]
    assert "could not be drawn" in shown.data["text/plain"]


def _done(op: str) -> Operation:
    return Operation(
        session=SessionId(SESSION),
        op=op,
        branch=BranchName("main"),
        checkpoint=None,
        at=DAY,
        total_ms=100,
    )

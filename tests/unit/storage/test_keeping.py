"""An open session within its store's budgets: its own checkpoints go, and none is failed by it."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.fake_workshop import FakeWorkshop, Office, office
from tests.support.front_end import in_a_loop

from branchpoint_vmruntime.lineage import Checkpoint, CheckpointKind
from branchpoint_vmruntime.storage.keeping import remember, remembered
from branchpoint_vmruntime.storage.retention import StoreBudgets

A_FEW = StoreBudgets(checkpoints=3)


class UnableToDiscard(FakeWorkshop):
    """Its disk takes nothing away."""

    def discard(self, checkpoint: Checkpoint) -> None:
        """Fails."""
        raise OSError(f"{checkpoint.id} is stuck")


def labels(it: Office) -> list[str]:
    return [each.label for each in it.session.checkpoints()[1:]]


@in_a_loop
async def test_what_is_least_costly_to_lose_goes_once_the_budget_is_exceeded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with office(tmp_path, store=A_FEW) as it:
        await it.session.checkpoint("loaded")
        await it.session.checkpoint("left")
        report = await it.session.rollback("loaded")
        assert report.safety is not None
        assert labels(it) == ["loaded", "left", report.safety.label]
        await it.session.checkpoint("fitted")
        assert labels(it) == ["loaded", "left", "fitted"]
        assert report.safety.id not in it.workshop.files
        told = f"over the budget of the store: removed {report.safety.label}; "
        assert [words.startswith(told) for words in it.session.notices] == [True]
    assert told in caplog.text


@in_a_loop
async def test_all_that_went_since_it_was_last_told_is_one_notice(tmp_path: Path) -> None:
    async with office(tmp_path, store=StoreBudgets(checkpoints=1)) as it:

        async def over_again() -> None:
            for _ in range(20):
                await it.session.checkpoint(kind=CheckpointKind.AUTO)
                await it.session.rollback("base")

        await over_again()
        (told,) = [words for words in it.session.notices if "removed" in words]
        assert "more; " in told
        it.session.notices.clear()
        await it.session.checkpoint()
        await it.session.rollback("base")
        await it.session.rollback("base")
        # What was told is not told again.
        (again,) = [words for words in it.session.notices if "removed" in words]
        assert " more; " not in again


@in_a_loop
async def test_what_was_just_taken_stays_even_if_it_is_least_costly_to_lose(
    tmp_path: Path,
) -> None:
    async with office(tmp_path, store=StoreBudgets(checkpoints=1)) as it:
        await it.session.checkpoint("loaded")
        report = await it.session.rollback("loaded")
        assert report.safety is not None
        assert labels(it) == ["loaded", report.safety.label]


@in_a_loop
async def test_what_is_pinned_stays(tmp_path: Path) -> None:
    async with office(tmp_path, store=StoreBudgets(checkpoints=2)) as it:
        await it.session.checkpoint("loaded")
        report = await it.session.rollback("loaded")
        assert report.safety is not None
        await it.session.pin(report.safety)
        await it.session.checkpoint("fitted")
        assert report.safety.label in labels(it)


@in_a_loop
async def test_a_collection_that_fails_fails_no_checkpoint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with office(tmp_path, UnableToDiscard(), store=StoreBudgets(checkpoints=1)) as it:
        await it.session.checkpoint("loaded")
        await it.session.rollback("loaded")
        saved = await it.session.checkpoint("fitted")
        assert saved.label == "fitted"
    assert "could not be brought within its budgets" in caplog.text


@in_a_loop
async def test_that_nothing_more_can_go_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with office(tmp_path, store=StoreBudgets(checkpoints=1)) as it:
        for _ in range(4):
            await it.session.checkpoint()
        assert len(labels(it)) == 4
    told = [record for record in caplog.records if "nothing more can go" in record.message]
    assert len(told) == 1
    assert told[0].levelno == logging.WARNING


@in_a_loop
async def test_without_budgets_nothing_goes(tmp_path: Path) -> None:
    async with office(tmp_path) as it:
        await it.session.checkpoint("loaded")
        for _ in range(3):
            await it.session.rollback("loaded")
        kinds = [each.kind for each in it.session.checkpoints()]
        assert kinds.count(CheckpointKind.SAFETY) == 3


@pytest.mark.parametrize(
    "budgets", [StoreBudgets(), A_FEW, StoreBudgets(bytes=1, age_s=2.5, checkpoints=3)]
)
def test_budgets_are_remembered_for_when_nobody_has_the_session_open(
    tmp_path: Path, budgets: StoreBudgets
) -> None:
    remember(tmp_path / "s-1", replace(budgets, bytes=7))
    remember(tmp_path / "s-1", budgets)
    assert remembered(tmp_path / "s-1") == budgets


@pytest.mark.parametrize("said", ["", "[]", '{"tapes": 3}', "\0"])
def test_a_memory_that_cannot_be_read_is_none(tmp_path: Path, said: str) -> None:
    (tmp_path / "store.json").write_text(said)
    assert remembered(tmp_path) == StoreBudgets()
    assert remembered(tmp_path / "never") == StoreBudgets()

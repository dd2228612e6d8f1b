"""Facts and refusals cross a socket and arrive as they were, also from another version."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.lineage.facts import DAY, a_checkpoint

from branchpoint_vmruntime.control_facts import (
    BranchFacts,
    CheckpointFacts,
    EndFacts,
    FailedFork,
    ForkFacts,
    OpenSession,
    OwnerKind,
    PauseFacts,
    RollbackFacts,
    from_json,
    to_json,
)
from branchpoint_vmruntime.errors import (
    BranchpointError,
    GuestSilentError,
    ImageBuildError,
    MachineError,
    NameTakenError,
    SessionBusyError,
    UnknownNameError,
    UsageError,
)
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.refusals import error_of, refusal_of

CHECKPOINT = CheckpointFacts.of(a_checkpoint("c1", label="geladen-加载"), pinned=True)
BRANCH = BranchFacts(
    name="größe",
    state=BranchState.PAUSED,
    current=True,
    index=1,
    parent=None,
    origin="base0000",
    head="c1",
    head_label="geladen-加载",
    created_at=DAY,
)
PAUSE = PauseFacts(branch=BRANCH, checkpoint=CHECKPOINT, freed_bytes=9, total_ms=1.5)


def crossed(words: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(words))


@pytest.mark.parametrize(
    "fact",
    [
        CHECKPOINT,
        BRANCH,
        PAUSE,
        OpenSession(id="7f3c", key="größe.ipynb", pid=42, kind=OwnerKind.SCRIPT),
        ForkFacts(
            origin=CHECKPOINT,
            branches=(BRANCH, BRANCH),
            failures=(FailedFork(name="b", message="not today"),),
            reseeded=True,
            total_ms=2.0,
        ),
        RollbackFacts(
            branch=BRANCH, checkpoint=CHECKPOINT, safety=None, safety_note="none", total_ms=3.0
        ),
        EndFacts(saved=(PAUSE,), lost=("a",)),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_a_fact_arrives_as_it_was(fact: object) -> None:
    assert from_json(type(fact), crossed(to_json(fact))) == fact


def test_what_a_newer_owner_says_more_is_passed_over() -> None:
    news = crossed(to_json(BRANCH)) | {"colour": "green"}
    assert from_json(BranchFacts, news) == BRANCH


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists))
def test_what_is_no_fact_is_told(raw: object) -> None:
    with pytest.raises(BranchpointError, match="cannot be read"):
        from_json(BranchFacts, raw)


@pytest.mark.parametrize(
    "error",
    [
        UsageError("not like this", hint="like that"),
        UnknownNameError("branch", "größe", ("main", "a"), hint="did you mean 'a'?"),
        NameTakenError("it is in use"),
        SessionBusyError("a cell runs", hint="wait"),
        BranchpointError("something else"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_arrives_as_it_was(error: BranchpointError) -> None:
    arrived = error_of(crossed(refusal_of(error)))
    assert type(arrived) is type(error)
    assert (str(arrived), arrived.hint) == (str(error), error.hint)
    assert getattr(arrived, "known", None) == getattr(error, "known", None)


def test_an_error_that_is_more_than_words_arrives_as_what_it_is_in_general(
    tmp_path: Path,
) -> None:
    silent = GuestSilentError("ping", 5.0, tmp_path)
    arrived = error_of(crossed(refusal_of(silent)))
    assert type(arrived) is MachineError
    assert str(arrived) == str(silent)


def test_an_error_of_a_kind_that_is_not_known_here_keeps_its_words() -> None:
    arrived = error_of({"message": "news", "hint": "", "usage": True, "kind": "NewsError"})
    assert type(arrived) is UsageError
    told = refusal_of(ImageBuildError("no image", hint="build it"))
    assert told["kind"] == "HostError"

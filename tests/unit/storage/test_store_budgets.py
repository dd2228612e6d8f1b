"""`store:` of a manifest: what it may say, and for all else the line that says it."""

from pathlib import Path

import pytest

from branchpoint_vmruntime.errors import ManifestError
from branchpoint_vmruntime.manifest import Manifest
from branchpoint_vmruntime.storage.retention import StoreBudgets

DAY_S = 86400.0


@pytest.mark.parametrize(
    ("text", "budgets"),
    [
        ("{}", StoreBudgets()),
        ("{bytes: 20gb}", StoreBudgets(bytes=20 << 30)),
        ("{bytes: 1.5TB}", StoreBudgets(bytes=1536 << 30)),
        ("{age: 30d}", StoreBudgets(age_s=30 * DAY_S)),
        ("{age: 90m, checkpoints: 1_000}", StoreBudgets(age_s=5400.0, checkpoints=1000)),
        (
            "{bytes: 500mb, age: 2h, checkpoints: 200}",
            StoreBudgets(bytes=500 << 20, age_s=7200.0, checkpoints=200),
        ),
    ],
)
def test_a_store_has_the_budgets_that_are_given(text: str, budgets: StoreBudgets) -> None:
    assert Manifest.parse(f"store: {text}").store == budgets


def test_without_a_word_of_it_a_store_has_no_budget() -> None:
    assert not Manifest().store.any
    assert Manifest.parse("machine: 1vcpu-1gb").store == StoreBudgets()


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("store: 20gb", 1, "expected fields: bytes, age, checkpoints"),
        ("store:\n  size: 20gb", 2, "'size' is not a field here; there is: bytes, age"),
        ("store: {bytes: 20}", 1, "'20' is not a size such as 500mb, 20gb or 1tb"),
        ("store: {bytes: 0gb}", 1, "'0gb' would keep nothing"),
        ("store: {bytes: 20 GB}", 1, "'20 GB' is not a size"),
        ("store:\n\n  age: month", 3, "'month' is not a time such as 90s, 15m, 2h or 1d"),
        ("store: {age: 0d}", 1, "'0d' would keep nothing"),
        ("store: {checkpoints: -1}", 1, "'-1' is not a whole number such as 200000"),
        ("store: {checkpoints: 0}", 1, "'0' would keep nothing"),
        ("store: {checkpoints: [1]}", 1, "expected a plain value"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(text: str, line: int, why: str) -> None:
    with pytest.raises(ManifestError) as caught:
        Manifest.parse(text, name=str(Path("branchpoint.yaml")))
    assert str(caught.value).startswith(f"branchpoint.yaml, line {line}: {why}")

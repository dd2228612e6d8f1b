"""A ledger of the test's own."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.unit.ledger.callers import Living

from branchpoint_vmruntime.ledger.ledger import Ledger


@pytest.fixture
def ledger_path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(ledger_path: Path) -> Generator[Ledger]:
    with Ledger.open(ledger_path) as opened:
        yield opened


@pytest.fixture
def alive() -> Living:
    return Living()

"""A machine around the test, as far as calls go."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.support.fake_calls import FakeCalls

from branchpoint import calls as calls_of_the_module
from branchpoint import waking


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[FakeCalls]:
    """Answers what the module `branchpoint` asks; this process is woken as `main`."""
    address = tmp_path / "calls.sock"
    monkeypatch.setenv(calls_of_the_module.ADDRESS_VARIABLE, str(address))
    monkeypatch.setattr(waking, "_told", None)
    monkeypatch.setattr(waking, "_callbacks", [])
    waking.adopt("main", 0, "inc-1", "s-1", "start")
    fake = FakeCalls(address)
    yield fake
    fake.close()

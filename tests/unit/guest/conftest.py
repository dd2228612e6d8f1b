"""A machine around the test, as far as calls go."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.support.fake_calls import FakeCalls
from tests.support.once_machine import OnceMachine

from branchpoint import calls as calls_of_the_module
from branchpoint import interruption, waking


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


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[OnceMachine]:
    """Does for `once` what a machine around the test would."""
    address = tmp_path / "calls.sock"
    monkeypatch.setenv(calls_of_the_module.ADDRESS_VARIABLE, str(address))
    monkeypatch.setattr(waking, "_told", None)
    monkeypatch.setattr(waking, "_callbacks", [])
    identity = tmp_path / "identity.json"
    with OnceMachine(address, tmp_path / "ledger.db", identity) as made:
        yield made
    assert not waking.to_stop
    assert not interruption.is_inside_run()

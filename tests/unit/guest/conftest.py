"""A machine around the test, as far as calls go."""

import threading
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.support.fake_calls import FakeCalls
from tests.support.once_machine import OnceMachine

from branchpoint import calls as calls_of_the_module
from branchpoint import interruption, waking


@pytest.fixture
def unwoken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module `branchpoint` knows of no waking: of none of another test's either."""
    done = threading.Event()
    done.set()
    fresh: dict[str, object] = {"_told": None, "_callbacks": [], "_done": done, "_thread": None}
    for name, value in fresh.items():
        monkeypatch.setattr(waking, name, value)


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unwoken: None) -> Generator[FakeCalls]:
    """Answers what the module `branchpoint` asks; this process is woken as `main`."""
    address = tmp_path / "calls.sock"
    monkeypatch.setenv(calls_of_the_module.ADDRESS_VARIABLE, str(address))
    waking.adopt("main", 0, "inc-1", "s-1", "start")
    fake = FakeCalls(address)
    yield fake
    fake.close()


@pytest.fixture
def machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unwoken: None
) -> Generator[OnceMachine]:
    """Does for `once` what a machine around the test would."""
    address = tmp_path / "calls.sock"
    monkeypatch.setenv(calls_of_the_module.ADDRESS_VARIABLE, str(address))
    identity = tmp_path / "identity.json"
    with OnceMachine(address, tmp_path / "ledger.db", identity) as made:
        yield made
    assert not waking.to_stop
    assert not interruption.is_inside_run()

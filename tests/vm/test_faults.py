"""Whatever stops the owner, the machines or the disk, at any step: the store is whole afterwards.

After each fault: `verify` finds no damage, every checkpoint that was reported is there and works,
what was not reported is gone after a sweep, and a session that got an error goes on as it was.

What is tried by default is one step for each thing that can go wrong: in every operation, kills of
the owner and of what machines there are, a full disk and one that fails, where files are written,
put in place, recorded and read. It takes two minutes alone. `make faults` has every step of every
operation tried with every kind of fault, in an hour or two; with BRANCHPOINT_FAULTS="kill pause,gc"
it is those kinds at all steps of those.
"""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.support.fault_operations import OPERATIONS
from tests.support.faults import Kind

from branchpoint_vmruntime.borrowers import AWAITED
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.outside.authority import FILE as AUTHORITY

pytestmark = pytest.mark.vm

ROOT = Path(__file__).parents[2]
KILLS = [
    ("checkpoint", Kind.KILL, "sqlite BEGIN"),
    ("fork", Kind.KILL, "overlay.qcow2"),
    ("rollback", Kind.KILL, "sqlite COMMIT"),
    ("pause", Kind.KILL, "sqlite COMMIT"),
    ("resume", Kind.KILL, "overlay"),
    ("lend", Kind.KILL, AWAITED),
    ("return", Kind.KILL, "sqlite COMMIT"),
    ("borrow", Kind.KILL, "os.rename"),
    ("rm-borrower", Kind.KILL, "os.rmdir"),
    ("gc", Kind.KILL, "os.rmdir"),
    ("export", Kind.KILL, "os.fsync"),
    ("import", Kind.KILL, "sqlite BEGIN"),
    ("checkpoint", Kind.QEMU, "os.link"),
    ("fork", Kind.QEMU, "overlay.qcow2"),
    ("rollback", Kind.QEMU, "os.fsync"),
    ("pause", Kind.QEMU, "os.link"),
    ("resume", Kind.QEMU, "sqlite BEGIN"),
]
ERRORS = [
    ("checkpoint", Kind.EIO, "sqlite BEGIN"),
    ("checkpoint", Kind.FULL, "memory"),
    ("fork", Kind.EIO, "overlay.qcow2"),
    ("fork", Kind.FULL, "overlay"),
    ("rollback", Kind.EIO, "sqlite BEGIN"),
    ("rollback", Kind.FULL, "memory"),
    ("rollback", Kind.DEAD, "os.fsync"),
    ("pause", Kind.EIO, "os.rename"),
    ("pause", Kind.FULL, "memory"),
    ("resume", Kind.EIO, "overlay"),
    ("resume", Kind.FULL, "/live"),
    ("checkpoint", Kind.UNREADABLE, "devices"),
    ("fork", Kind.UNREADABLE, "os.copy_file_range"),
    ("rollback", Kind.UNREADABLE, "devices"),
    ("resume", Kind.UNREADABLE, "memory"),
    ("resume", Kind.UNREADABLE, "os.copy_file_range"),
    ("keep", Kind.EIO, "sqlite COMMIT"),
    ("lend", Kind.EIO, AUTHORITY),
    ("return", Kind.FULL, "sqlite BEGIN"),
    ("remove", Kind.EIO, ".mem"),
    ("rm-borrower", Kind.EIO, ".sock"),
    ("gc", Kind.EIO, "os.rmdir"),
    ("gc", Kind.FULL, "sqlite BEGIN"),
    ("export", Kind.EIO, "os.fsync"),
    ("export", Kind.FULL, "os.fsync"),
    ("export", Kind.UNREADABLE, "os.preadv"),
    ("import", Kind.EIO, "sqlite COMMIT"),
    ("import", Kind.FULL, "memory"),
    ("open", Kind.FULL, "/live"),
]


class Driver:
    """The process in which faults are tried."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def tried(self, *attempts: tuple[str, Kind, int | str]) -> list[dict[str, Any]]:
        """What came of attempts."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(attempts) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the driver has ended"
        return json.loads(answer)


@pytest.fixture(scope="module")
def driver(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Generator[Driver]:
    argv = [sys.executable, "-P", "-m", "tests.support.fault_driver"]
    with subprocess.Popen(
        [*argv, str(home.root), str(tmp_path_factory.mktemp("faults"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as process:
        yield Driver(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait() == 0


def assert_all_well(outcomes: list[dict[str, Any]]) -> None:
    wrong = [it for it in outcomes if it["wrong"]]
    assert not wrong, "\n\n".join(
        f"{it['op']}, {it['kind']} at {it['at']} ({it['struck']}; {it['error']}): {it['wrong']}"
        for it in wrong
    )


@pytest.mark.parametrize("attempt", KILLS, ids=" ".join)
def test_what_was_reported_outlives_a_kill_and_nothing_else_is_left(
    driver: Driver, attempt: tuple[str, Kind, str]
) -> None:
    outcomes = driver.tried(attempt)
    assert_all_well(outcomes)
    assert all(it["struck"] for it in outcomes), "the operation has no such step"


@pytest.mark.timeout(1800)
def test_a_session_goes_on_as_it_was_after_an_error_of_the_disk(driver: Driver) -> None:
    outcomes = driver.tried(*ERRORS)
    assert_all_well(outcomes)
    assert len(outcomes) == len(ERRORS)
    assert all(it["struck"] for it in outcomes), "an operation has no such step"


def _every() -> list[tuple[str, str]]:
    wanted = os.environ.get("BRANCHPOINT_FAULTS", "")
    kinds, _, operations = wanted.partition(" ")
    if kinds in ("", "all"):
        return [(op, kind) for kind in Kind for op in OPERATIONS] if kinds else []
    return [(op, kind) for kind in kinds.split(",") for op in operations.split(",")]


@pytest.mark.skipif(not _every(), reason="every step takes an hour or two: make faults")
@pytest.mark.timeout(0)
@pytest.mark.parametrize(("op", "kind"), _every())
def test_there_is_no_step_at_which_it_is_otherwise(driver: Driver, op: str, kind: str) -> None:
    outcomes = driver.tried((op, Kind(kind), 0))
    assert_all_well(outcomes)
    # Some operations read nothing of what was saved.
    assert kind == Kind.UNREADABLE or any(it["struck"] for it in outcomes)

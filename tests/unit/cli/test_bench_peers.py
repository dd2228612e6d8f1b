"""The server and client that the outside is measured with."""

import json
import subprocess
import sys
from collections.abc import Generator

import pytest

from branchpoint_cli.bench.edge import SOURCE

ANY_SIZE = 200_000
# Only the superuser could listen there, and nothing does.
NOBODY = 1
COMMAND = [sys.executable, "-P", "-c", SOURCE]


@pytest.fixture
def port() -> Generator[int]:
    serving = subprocess.Popen([*COMMAND, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with serving:
        assert serving.stdout is not None
        yield int(serving.stdout.readline())


def ask(rounds: int, *asks: tuple[str, int, str, int]) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "ask", str(rounds), json.dumps(asks)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_request_is_timed_once_a_round(port: int) -> None:
    done = ask(3, ("direct", port, "GET", ANY_SIZE), ("direct", port, "PUT", ANY_SIZE))

    times = json.loads(done.stdout)
    assert [len(seconds) for seconds in times] == [3, 3]
    assert all(second > 0 for seconds in times for second in seconds)


def test_a_server_that_gives_no_answer_is_not_measured(port: int) -> None:
    done = ask(1, ("direct", port, "GET", ANY_SIZE), ("direct", NOBODY, "GET", ANY_SIZE))

    assert done.returncode
    assert not done.stdout

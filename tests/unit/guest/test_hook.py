"""The hook in the kernel: whom guestd greets at each wake, and who answers for the variables."""

import contextlib
import json
import os
import random
import socket
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy.random
import pytest

import branchpoint
from branchpoint import waking
from branchpoint_guestkernel import hook
from branchpoint_guestkernel.hook import Answering, Inquiries

GREETING = b"awake inc-2\tridge\t3\ts-1\tfork\t%s\n"


class PlainShell:
    """As much of IPython as the hook uses."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.user_ns_hidden: dict[str, Any] = {}

    def push(self, variables: dict[str, Any], interactive: bool) -> None:  # noqa: FBT001
        self.user_ns |= variables
        if not interactive:
            self.user_ns_hidden |= variables

    def register_magic_function(self, func: Any, magic_kind: str, magic_name: str) -> None:
        """Nobody types any here."""


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Generator[PlainShell]:
    monkeypatch.setattr(waking, "_told", None)
    monkeypatch.setattr(waking, "_callbacks", [])
    before = dict(os.environ)
    yield PlainShell()
    os.environ.clear()
    os.environ.update(before)


def connected(address: Path | str) -> socket.socket:
    """Guestd's end."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(120)
    connection.connect(str(address))
    return connection


@pytest.fixture
def answering(shell: PlainShell, tmp_path: Path) -> Generator[Answering]:
    with contextlib.closing(Answering(shell, str(tmp_path / "hook"))) as answering:
        yield answering


@pytest.fixture
def inquiries(shell: PlainShell, tmp_path: Path) -> Generator[Inquiries]:
    with contextlib.closing(Inquiries(shell, str(tmp_path / "questions"))) as inquiries:
        inquiries.start()
        yield inquiries


def test_a_kernel_that_is_greeted_is_someone_else(shell: PlainShell, answering: Answering) -> None:
    answering.answer(GREETING % b"")
    who = branchpoint.identity()
    assert (who.name, who.index, who.incarnation, who.session) == ("ridge", 3, "inc-2", "s-1")
    assert who.reason == "fork"
    branch = shell.user_ns["branch"]
    assert (branch.name, branch.index, branch.incarnation) == ("ridge", 3, "inc-2")


def test_processes_started_after_a_wake_know_who_they_are(answering: Answering) -> None:
    answering.answer(GREETING % b"")
    assert os.environ["BRANCHPOINT_BRANCH"] == "ridge"
    assert os.environ["BRANCHPOINT_INDEX"] == "3"
    assert os.environ["BRANCHPOINT_REASON"] == "fork"


def test_without_a_seed_no_generator_is_touched(answering: Answering) -> None:
    state = random.getstate()
    nonce = hook.NONCE.encode()
    assert answering.answer(GREETING % b"") == b"awake %s\t\n" % nonce
    assert random.getstate() == state


def test_with_a_seed_the_generators_follow_from_it(answering: Answering) -> None:
    assert numpy.random is sys.modules["numpy.random"]
    drawn: list[float] = []
    for seed in (b"ab" * 32, b"ab" * 32, b"cd" * 32):
        assert b"random,numpy" in answering.answer(GREETING % seed)
        drawn.append(random.random())
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_name_of_the_users_own_is_left_alone(shell: PlainShell, answering: Answering) -> None:
    shell.user_ns["branch"] = "mine"
    answering.answer(GREETING % b"")
    assert shell.user_ns["branch"] == "mine"


@pytest.mark.parametrize("line", [b"dance\n", b"awake\n", b"awake a\tb\n", b"\xff\n"])
def test_what_makes_no_sense_is_refused_and_the_hook_lives_on(
    answering: Answering, line: bytes
) -> None:
    assert answering.answer(line).startswith(b"failed ")
    assert answering.answer(GREETING % b"").startswith(b"awake ")


def test_callbacks_are_called_after_guestd_has_its_answer(
    answering: Answering, tmp_path: Path
) -> None:
    answering.start()
    answered: list[bytes] = []
    with connected(tmp_path / "hook") as guestd, guestd.makefile("rwb") as lines:
        lines.write(GREETING % b"")
        lines.flush()
        lines.readline()
        branchpoint.on_wake(lambda _: answered.append(lines.readline()))
        for _ in range(2):
            lines.write(GREETING % b"")
            lines.flush()
        # The callback reads the answer to the very greeting it is called for.
        while not answered:
            pass
    assert answered[0].startswith(b"awake ")


def asked(folder: Path) -> socket.socket:
    """A connection over which the variables were asked for."""
    guestd = connected(folder / "questions")
    guestd.sendall(b"variables 80\n")
    return guestd


def answer(guestd: socket.socket) -> Any:
    """All that is said over a connection."""
    with guestd, guestd.makefile("rb") as lines:
        return json.loads(lines.read())


@pytest.mark.usefixtures("inquiries")
def test_a_question_is_answered_with_json(shell: PlainShell, tmp_path: Path) -> None:
    shell.user_ns |= {"x": [1, 2]}
    [facts] = answer(asked(tmp_path))
    assert (facts["name"], facts["repr"]) == ("x", "[1, 2]")


@pytest.mark.usefixtures("inquiries")
def test_the_environment_is_changed_by_the_time_it_is_answered(tmp_path: Path) -> None:
    os.environ["TAKEN_AWAY"] = "x"
    with connected(tmp_path / "questions") as guestd, guestd.makefile("rb") as lines:
        guestd.sendall(b'environment {"A": "1 \\u00fc", "TAKEN_AWAY": null, "NEVER_SET": null}\n')
        assert lines.read() == b"true"
    assert os.environ["A"] == "1 \xfc"
    assert not {"TAKEN_AWAY", "NEVER_SET"} & set(os.environ)


@pytest.mark.usefixtures("inquiries")
def test_a_question_that_hangs_holds_up_no_other(shell: PlainShell, tmp_path: Path) -> None:
    hanging, go_on = threading.Event(), threading.Event()

    class Hangs:
        def __repr__(self) -> str:
            hanging.set()
            go_on.wait()
            return "over"

    shell.user_ns["x"] = Hangs()
    first = asked(tmp_path)
    hanging.wait()
    del shell.user_ns["x"]
    assert answer(asked(tmp_path)) == []
    go_on.set()
    assert answer(first)[0]["repr"] == "over"

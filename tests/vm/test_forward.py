"""A server in a machine, reached from the host: before and after rollbacks, and in forks."""

import json
import socket
from collections.abc import Generator
from contextlib import closing

import pytest
from tests.support.guest_server import (
    HOST,
    PATIENCE_S,
    SERVER,
    WebSocket,
    ask,
    ask_again,
    connection,
    forward,
)
from tests.support.live_kernel import LiveKernel

from branchpoint_cli.__main__ import main

pytestmark = pytest.mark.vm

COUNTED = 8002
MUCH = 1 << 20
COUNTING = f"""
import contextlib, socket, threading
def count(listening):
    caller, _ = listening.accept()
    taken = 0
    while data := caller.recv(65536):
        taken += len(data)
    caller.sendall(f"{{taken}} bytes".encode())
    caller.close()
def count_all(listening):
    while True:
        # The question whether anything listens is a connection too, cut off if not ended in time.
        with contextlib.suppress(OSError):
            count(listening)
counting = socket.create_server(("127.0.0.1", {COUNTED}))
threading.Thread(target=count_all, args=(counting,), daemon=True).start()
"""


@pytest.fixture(scope="module")
def serving(shared_kernel: LiveKernel) -> LiveKernel:
    """A kernel whose process serves a page."""
    shared_kernel.run(SERVER)
    return shared_kernel


@pytest.fixture(scope="module")
def port(serving: LiveKernel) -> Generator[int]:
    """Where the page is on the host, whichever branch is the current one."""
    made = forward(serving)
    assert made["answered"]
    yield made["host_port"]
    serving.run("%forward 8000 --stop")


def test_after_a_rollback_the_same_process_answers_as_it_was_then(
    serving: LiveKernel, port: int
) -> None:
    before = ask(port)
    serving.run("%checkpoint asked")
    with connection(port) as asking:
        assert ask_again(asking)["asked"] == before["asked"] + 1
        serving.run("%rollback asked")
        # The machine that it led to is gone, and must not seem to be silent.
        with pytest.raises(ConnectionError):
            ask_again(asking)
    after = ask(port)
    assert (after["asked"], after["pid"]) == (before["asked"] + 1, before["pid"])


def test_a_fork_is_reached_by_a_forward_of_its_own(serving: LiveKernel, port: int) -> None:
    serving.run("%fork 1 --names ridge")
    ridge = forward(serving, "--branch ridge")["host_port"]
    in_main, in_ridge = ask(port), ask(ridge)
    assert in_ridge["pid"] == in_main["pid"]
    assert in_ridge["host"] != in_main["host"]
    serving.run("%drop ridge")
    with pytest.raises(ConnectionRefusedError):
        ask(ridge)
    assert ask(port)["host"] == in_main["host"]


def test_it_follows_the_notebook_to_another_branch(serving: LiveKernel, port: int) -> None:
    serving.run("%fork 1 --names forest")
    in_main = ask(port)["host"]
    serving.run("%switch forest")
    assert ask(port)["host"] != in_main
    serving.run("%switch main")
    serving.run("%drop forest")
    assert ask(port)["host"] == in_main


def test_a_client_that_is_done_sending_still_gets_its_answer(serving: LiveKernel) -> None:
    serving.run(COUNTING)
    made = forward(serving, port=COUNTED)
    with socket.create_connection((HOST, made["host_port"]), timeout=PATIENCE_S) as client:
        client.sendall(bytes(MUCH))
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as answers:
            assert answers.read() == f"{MUCH} bytes".encode()
    serving.run(f"%forward {COUNTED} --stop")


def test_websockets_pass(serving: LiveKernel, port: int) -> None:
    assert serving
    with closing(WebSocket(port)) as talk:
        assert talk.status == 101
        assert [talk.say("one"), talk.say("two")] == ["ONE", "TWO"]


def test_where_nothing_listens_is_told_and_a_connection_is_reset(serving: LiveKernel) -> None:
    cell = serving.run("%forward 8001")
    assert "nothing listens" in cell.text
    made = next(it for it in cell.record["forwards"] if it["port"] == 8001)
    assert not made["answered"]
    with pytest.raises(ConnectionError):
        ask(made["host_port"])
    serving.run("%forward 8001 --stop")


def test_a_shell_on_the_host_sees_the_same_forwards(
    serving: LiveKernel, port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serving
    assert main(["forward", "--list", "--json"]) == 0
    assert [it["host_port"] for it in json.loads(capsys.readouterr().out)] == [port]

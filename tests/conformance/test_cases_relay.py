"""Cases from other projects' bug reports: what a relay between front ends and a kernel gets wrong.

docs/fidelity.md says which case is which.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from tests.conformance.recorder import FrontEnd
from tests.conftest import StartKernel
from tests.support.live_kernel import NEWS, PATIENCE_S, LiveKernel

pytestmark = [pytest.mark.vm, pytest.mark.timeout(600)]

NOTEBOOK = (
    "print('said'); import sys; print('warned', file=sys.stderr)",
    "from IPython.display import HTML\ndisplay(HTML('<b>x</b>'))",
    "handle = display('a', display_id='one')",
    "handle.update('b'); {'k': [1, 2]}",
    "for n in range(3): print(n)\n1/0",
    "print('last')",
)


@contextmanager
def another_client(manager: KernelManager) -> Generator[BlockingKernelClient]:
    """A front end that connects now."""
    client = manager.blocking_client()
    client.start_channels()
    try:
        yield client
    finally:
        client.stop_channels()


def executed(kernel_name: str) -> str:
    """The saved outputs of the notebook after nbclient has run it."""
    # It has no complete types.
    untyped: Any = nbformat
    notebook = untyped.reads(json.dumps(written()), as_version=4)
    NotebookClient(notebook, kernel_name=kernel_name, allow_errors=True, timeout=120).execute()
    return json.dumps([(said(cell), cell.execution_count) for cell in notebook.cells])


def said(cell: Any) -> list[Any]:
    """Its outputs, but for a slow host's news that the machine is still coming up.

    Texts of a stream that follow each other are joined: where a timer cut them is chance.
    """
    told: list[Any] = []
    for it in cell.outputs:
        text = NEWS.sub("", it.get("text", ""))
        if told and "text" in it and told[-1].get("name") == it["name"]:
            told[-1] |= {"text": told[-1]["text"] + text}
        elif text or "text" not in it:
            told.append(it | {"text": text} if text else it)
    return told


def written() -> dict[str, Any]:
    """The notebook as it is on disk."""
    empty: dict[str, Any] = {"metadata": {}, "outputs": [], "execution_count": None}
    cells = [{"cell_type": "code", "source": code, **empty} for code in NOTEBOOK]
    return {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells}


def test_nbclient_saves_the_outputs_that_it_saves_from_stock(
    shared_kernel: LiveKernel,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    assert shared_kernel.manager.is_alive()
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
    assert executed("branchpoint") == executed("python3")


def test_interrupts_of_printing_cells_never_put_output_into_the_next(
    shared_kernel: LiveKernel,
) -> None:
    front_end = FrontEnd(shared_kernel.client)
    for _ in range(10):
        front_end.begin()
        printing = front_end.execute("while True: print('x' * 100)")
        front_end.wait_text(printing, "xxx")
        after = front_end.execute("print('after')", stop_on_error=False)
        front_end.interrupt()
        front_end.finish(printing, after)
        front_end.listen_for(0.2)
        on_iopub = [m for m in front_end.heard if m.channel == "iopub"]
        last_of_first = max(n for n, m in enumerate(on_iopub) if m.parent == printing)
        assert on_iopub[last_of_first].content == {"execution_state": "idle"}
        assert all(m.parent != after or n > last_of_first for n, m in enumerate(on_iopub))
        shared_kernel.run("'and on'")


def test_a_manager_interrupts_a_cell_and_the_kernel_stays_the_same(
    shared_kernel: LiveKernel,
) -> None:
    pid, guest_pid = shared_kernel.pid, shared_kernel.value("__import__('os').getpid()")
    sent = shared_kernel.start("print('begun', flush=True)\nwhile True: pass")
    shared_kernel.wait_for(sent, lambda cell: "begun" in cell.text)
    shared_kernel.manager.interrupt_kernel()
    assert shared_kernel.finish(sent).error_name == "KeyboardInterrupt"
    assert shared_kernel.value("__import__('os').getpid()") == guest_pid
    assert shared_kernel.pid == pid


def test_clients_that_execute_as_soon_as_they_are_welcomed_hear_everything(
    shared_kernel: LiveKernel,
) -> None:
    shared_kernel.run("1")
    for number in range(20):
        with another_client(shared_kernel.manager) as client:
            front_end = FrontEnd(client)
            front_end.wait(lambda fe=front_end: fe.heard)
            assert front_end.heard[0].type == "iopub_welcome"
            # As a server does whenever a page is opened.
            nudges = [front_end.send(c, "kernel_info_request", {}) for c in ("shell", "control")]
            cell = front_end.execute(f"print({number})")
            front_end.finish(*nudges, cell)
            mine = [m for m in front_end.heard if m.parent == cell and m.channel == "iopub"]
            assert [m.type for m in (*mine[:2], mine[-1])] == ["status", "execute_input", "status"]
            assert "".join(m.content.get("text", "") for m in mine) == f"{number}\n"


def test_jupyters_parent_pid_does_not_reach_the_guest(shared_kernel: LiveKernel) -> None:
    # jupyter_client sets it for every kernel that it starts.
    assert shared_kernel.value("'JPY_PARENT_PID' in __import__('os').environ") == "False"


def wait_subscribed(front_end: FrontEnd) -> None:
    """Ask until answers are heard on iopub too, as a server does.

    ZMQ makes a subscription anew some time after the ports are bound again.
    """
    asked: list[str] = []

    def heard() -> bool:
        asked.append(front_end.send("shell", "kernel_info_request", {}))
        return any(front_end.is_idle(each) for each in asked)

    front_end.wait(heard)


def test_a_restarted_kernel_says_its_states_and_asks_its_questions(
    start_kernel: StartKernel,
) -> None:
    with start_kernel("cases-restarted") as kernel:
        addresses = kernel.manager.get_connection_info()
        for _ in range(3):
            kernel.manager.restart_kernel(now=False)
            kernel.client.wait_for_ready(timeout=PATIENCE_S)
            front_end = FrontEnd(kernel.client)
            wait_subscribed(front_end)
            asked = front_end.send("shell", "kernel_info_request", {})
            front_end.finish(asked)
            states = [m.content["execution_state"] for m in front_end.of(asked, "status")]
            assert states == ["busy", "idle"]
            question = front_end.execute("input('who? ')", allow_stdin=True)
            front_end.answer(question, "me")
            front_end.finish(question)
            assert front_end.reply(question)["status"] == "ok"
        assert kernel.manager.get_connection_info() == addresses


def early_and_late(kernel: LiveKernel) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a new process says at once, without a machine if that is soon enough, and then."""
    kernel.manager.restart_kernel(now=True)
    with another_client(kernel.manager) as client:
        front_end = FrontEnd(client)
        front_end.wait(lambda: front_end.heard)
        early = front_end.ask("control", "kernel_info_request")
        front_end.run("1")
        return early, front_end.ask("control", "kernel_info_request")


def test_what_is_said_of_the_kernel_before_its_machine_is_up_is_what_is_said_after(
    start_kernel: StartKernel,
) -> None:
    with start_kernel("cases-early") as kernel:
        told = (early_and_late(kernel) for _ in range(10))
        early, late = next(it for it in told if "being started" in it[0]["banner"])
        for unequal in ("banner", "help_links"):
            del early[unequal], late[unequal]
        assert early == late


def test_two_clients_hear_the_same_of_a_cell_that_saves_as_it_prints(
    shared_kernel: LiveKernel,
) -> None:
    with another_client(shared_kernel.manager) as client:
        other = FrontEnd(client)
        other.wait(lambda: other.heard)
        first = FrontEnd(shared_kernel.client)
        cell = first.run("for n in range(3):\n    %checkpoint\n    print(n)")
        ours = [
            (m.type, m.content) for m in first.heard if m.channel == "iopub" and m.parent == cell
        ]
        other.wait(lambda: len([m for m in other.heard if m.parent]) >= len(ours))
        theirs = [(m.type, m.content) for m in other.heard if m.parent]
    assert "".join(content["text"] for kind, content in ours if kind == "stream") == "0\n1\n2\n"
    assert theirs == ours

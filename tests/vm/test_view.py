"""What another process is shown of a notebook's session on real machines, and when it hears."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from tests.support.live_kernel import LiveKernel, wait_until

from branchpoint_vmruntime.control_facts import OwnerKind
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.lineage_view import BranchView, LineageView
from branchpoint_vmruntime.session_control import SessionControl, open_sessions
from branchpoint_vmruntime.viewing import view_on_record

pytestmark = pytest.mark.vm

ENDLESS = "import time\nprint('on', flush=True)\ntime.sleep(600)"
T = TypeVar("T")


class Peer:
    """A process that looks on, such as a Jupyter server."""

    def __init__(self, home: Home, key: str) -> None:
        (self.session,) = [it for it in asyncio.run(open_sessions(home)) if it.key == key]
        self._socket = home.control(self.session.id)

    def ask(self, question: Callable[[SessionControl], Awaitable[T]]) -> T:
        """Over a connection of its own."""

        async def asked() -> T:
            async with SessionControl(self._socket) as control:
                return await question(control)

        return asyncio.run(asked())

    def view(self) -> LineageView:
        """What is shown now."""
        return self.ask(lambda control: control.view())

    def branch(self, name: str) -> BranchView:
        """A branch as it is shown now."""
        return next(it for it in self.view().branches if it.facts.name == name)

    def hears(self, what: Callable[[], object]) -> int:
        """The version that a watch begun before ends with, once it was done."""
        seen, heard = self.view().version, list[int]()
        watching = threading.Thread(
            target=lambda: heard.append(self.ask(lambda control: control.watch(seen)))
        )
        watching.start()
        what()
        watching.join()
        assert heard[0] > seen, "the watch ended without a change"
        return heard[0]


def shown(view: LineageView) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """The cells on the line, and those left."""
    return [(it.id, it.count) for it in view.line], [(it.id, it.count) for it in view.left]


def test_whoever_looks_on_sees_what_is_true_of_a_session(home: Home, kernel: LiveKernel) -> None:
    kernel.run("x = 1", cell_id="load")
    peer = Peer(home, "test_whoever_looks_on_sees_what_is_true_of_a_session")

    peer.hears(lambda: kernel.run("%checkpoint größe", cell_id="save"))
    view = peer.view()
    assert (view.owner, view.current, view.session) == (OwnerKind.KERNEL, "main", peer.session.id)
    saved = view.checkpoints[-1]
    assert (saved.facts.label, saved.source, saved.count) == ("größe", "%checkpoint größe", 1)
    assert saved.facts.paused_ms > 0

    peer.hears(lambda: kernel.run("%fork 1 --names ridge", cell_id="fork"))
    ridge = peer.branch("ridge")
    assert ridge.facts.state is BranchState.LIVE
    assert ridge.facts.own_bytes
    assert ridge.facts.shared_bytes
    assert {"spawn", "guest-clock"} <= set(ridge.phases_ms)

    kernel.run("x = 2", cell_id="break")
    assert shown(peer.view()) == ([("load", 1), ("save", 1), ("fork", 1), ("break", 2)], [])
    peer.hears(lambda: kernel.run("%rollback größe --no-safety", cell_id="back"))
    assert shown(peer.view()) == ([("load", 1), ("save", 1)], [("fork", 1), ("break", 2)])
    kernel.run("x = 3", cell_id="again")
    assert shown(peer.view())[0][-1] == ("again", 2)
    assert [it.source for it in peer.ask(lambda it: it.cells("main"))] == [
        "x = 1",
        "%checkpoint größe",
        "x = 3",
    ]

    # Asked for from outside, and told to whoever looks on as it is done.
    peer.hears(lambda: peer.ask(lambda it: it.annotate("größe", label="加载", note="ok")))
    assert [(it.facts.label, it.facts.note) for it in peer.view().checkpoints][1] == ("加载", "ok")
    peer.ask(lambda control: control.pause("ridge"))
    ridge = peer.branch("ridge")
    assert (ridge.facts.state, ridge.facts.own_bytes) == (BranchState.PAUSED, None)
    on_record = view_on_record(home, peer.session.id)
    assert (on_record.owner, on_record.current) == (OwnerKind.KERNEL, "main")
    assert on_record.checkpoints == peer.view().checkpoints

    running = kernel.start(ENDLESS, cell_id="long")
    kernel.wait_for(running, lambda cell: "on" in cell.text)
    assert wait_until(lambda: peer.branch("main").facts.busy)
    kernel.manager.interrupt_kernel()
    assert kernel.finish(running).error_name == "KeyboardInterrupt"
    assert wait_until(lambda: not peer.branch("main").facts.busy)

    # A machine that ends by itself is told of as well.
    peer.hears(lambda: kernel.run("import os; os.kill(os.getpid(), 9)", expect="error"))
    assert wait_until(lambda: peer.branch("main").facts.state is BranchState.LOST)

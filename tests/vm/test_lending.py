"""A branch carries on in another notebook, on a kernel of its own, and comes back at its end."""

import asyncio
import os
import signal

import pytest
from tests.conftest import StartKernel
from tests.support.live_kernel import wait_until

from branchpoint_vmruntime.control_facts import Lent
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import BranchRecord, BranchState, SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.removal import remove_session
from branchpoint_vmruntime.session_control import SessionControl

pytestmark = pytest.mark.vm

BEGIN = "import itertools, os\nticks = itertools.count(593); pid = os.getpid(); next(ticks)"


def session(home: Home, key: str) -> SessionRecord:
    """The session of that key."""
    with Journal.read(home.database) as journal:
        found = journal.session_by_key(key)
        assert found is not None
        return found


def branch(home: Home, key: str, name: str) -> BranchRecord:
    """A branch of the session of that key, as it is on record."""
    with Journal.read(home.database) as journal:
        there = journal.branches(session(home, key).id)
        return next(it for it in there if it.name == name)


def lend(home: Home, lender: str, name: str, key: str) -> Lent:
    """As a page does that opens a branch as a notebook."""

    async def ask() -> Lent:
        async with SessionControl(home.control(session(home, lender).id)) as control:
            return await control.lend(name, key)

    return asyncio.run(ask())


def test_a_branch_carries_on_in_another_notebook_and_comes_back(
    start_kernel: StartKernel, home: Home
) -> None:
    with start_kernel("lender.ipynb") as lender:
        lender.run(BEGIN)
        lender.run("%fork 1 --names ridge")
        lender.run("%%branch ridge\nmine = [next(ticks)]")
        lend(home, "lender.ipynb", "ridge", "lender-ridge.ipynb")
        with start_kernel("lender-ridge.ipynb") as borrower:
            first = borrower.run("print(mine, next(ticks), os.getpid() == pid)")
            assert "[594] 595 True" in first.text
            assert "this is ridge of lender.ipynb" in first.text
            assert borrower.run("%branches").record["branch"] == "ridge"
            for refused in ("%switch ridge", "%drop ridge", "%pause ridge", "%%branch ridge\n1"):
                told = lender.run(refused, expect="error").text
                assert "ridge is open as 'lender-ridge.ipynb'; close it first" in told
            assert "open as 'lender-ridge.ipynb'" in lender.run("%branches").text
            borrower.run("%checkpoint there")
            borrower.run("mine.append(next(ticks))")
            borrower.run("%rollback there")
            assert borrower.value("(mine, next(ticks))") == "([594], 596)"
            sleeping = borrower.start("import time; print('on', flush=True); time.sleep(600)")
            borrower.wait_for(sleeping, lambda cell: "on" in cell.text)
            borrower.manager.interrupt_kernel()
            assert borrower.finish(sleeping).error_name == "KeyboardInterrupt"
            borrower.manager.restart_kernel(now=False)
            borrower.client.wait_for_ready(timeout=120)
            assert borrower.run("print(mine, next(ticks))").text.endswith("[594] 595\n")
            assert branch(home, "lender.ipynb", "ridge").state is BranchState.LENT
            borrower.run("mine.append('from there')")
            borrower.manager.shutdown_kernel(now=False)
            assert wait_until(
                lambda: branch(home, "lender.ipynb", "ridge").state is BranchState.PAUSED
            )
        lender.run("%switch ridge")
        assert lender.value("(mine, next(ticks), os.getpid() == pid)") == (
            "([594, 'from there'], 596, True)"
        )


def test_a_borrower_that_is_killed_gives_back_what_it_saved_and_gets_it_again(
    start_kernel: StartKernel, home: Home
) -> None:
    def state() -> BranchState:
        return branch(home, "killed.ipynb", "ridge").state

    with start_kernel("killed.ipynb") as lender:
        lender.run(BEGIN)
        lender.run("%fork 1 --names ridge")
        lend(home, "killed.ipynb", "ridge", "killed-ridge.ipynb")
        with start_kernel("killed-ridge.ipynb") as borrower:
            borrower.run("x = 'saved'")
            there = borrower.run("%checkpoint there").record["checkpoint"]["id"]
            borrower.run("x = 'not saved'")
            os.kill(borrower.pid, signal.SIGKILL)
            # What it did since is lost, and said to be.
            assert wait_until(lambda: state() is BranchState.LOST)
            assert branch(home, "killed.ipynb", "ridge").head == there
        with start_kernel("killed-ridge.ipynb") as borrower:
            assert borrower.run("print(x)").text.endswith("saved\n")
            assert state() is BranchState.LENT
            working = borrower.start(
                "import time\nfor n in range(30):\n    print(n, flush=True); time.sleep(0.2)"
            )
            borrower.wait_for(working, lambda cell: "0" in cell.text)
            # As a system does that goes down; Jupyter would interrupt the cell first.
            os.kill(borrower.pid, signal.SIGTERM)
            assert wait_until(lambda: state() is BranchState.PAUSED)
        # What this notebook stands on stays until it goes as well.
        removed = remove_session(home, session(home, "killed-ridge.ipynb").id)
        assert (removed.needed_by, removed.kept > 0) == (("killed.ipynb",), True)
        # With what was under way there: it goes on here.
        lender.run("%switch ridge")
        assert lender.run("print(x, n)").text.endswith("saved 29\n")
    gone = session(home, "killed.ipynb").id
    assert remove_session(home, gone).kept == 0
    assert not [it for it in (gone, removed.session.id) if (home.layers / it).exists()]

"""Interrupts of every kind, and subshells: what goes on beside a cell that runs."""

from functools import partial

from tests.conformance.recorder import FrontEnd, Play

SETTLED_S = 1.0
INTERRUPTED = {
    "a loop interrupted": "print('begun', flush=True)\nwhile True: pass",
    "a sleep interrupted": "import time; print('begun', flush=True); time.sleep(600)",
    "a process interrupted": (
        "import subprocess; print('begun', flush=True); subprocess.run(['sleep', '600'])"
    ),
    "a shell command interrupted": "!echo begun; sleep 600",
    # The worker ends without a word: how much of a traceback it comes to write before its pool ends
    # it is chance. Once its first task is done it knows how.
    "a pool interrupted": (
        "import multiprocessing, signal, sys, time\n"
        "def leave(*_): sys.exit()\n"
        "fork = multiprocessing.get_context('fork')\n"
        "with fork.Pool(1, signal.signal, (signal.SIGINT, leave)) as pool:\n"
        "    pool.apply(int)\n"
        "    print('begun', flush=True); time.sleep(600)"
    ),
    "an interrupt caught": (
        "try:\n    print('begun', flush=True); time.sleep(600)\n"
        "except KeyboardInterrupt:\n    print('caught')\n'went on'"
    ),
}
# A thread says when the await would have ended by itself: whether the cell ends before or after
# shows in the order of the messages.
AWAITED = """
import asyncio, threading, time
def tell():
    time.sleep(12); print('by itself', flush=True)
threading.Thread(target=tell).start()
print('begun', flush=True)
await {awaited}
"""


def interrupted(code: str, kernel: FrontEnd) -> None:
    request = kernel.execute(code)
    kernel.wait_text(request, "begun")
    # Past the print, or the traceback shows where in it the signal came.
    kernel.listen_for(SETTLED_S)
    kernel.interrupt()
    kernel.finish(request)
    kernel.run("'next'")


def await_interrupted(awaited: str, kernel: FrontEnd) -> None:
    request = kernel.execute(AWAITED.format(awaited=awaited))
    kernel.wait_text(request, "begun")
    kernel.listen_for(SETTLED_S)
    kernel.interrupt()
    kernel.finish(request)
    kernel.wait_text(request, "by itself")
    kernel.run("'next'")


def question_interrupted(kernel: FrontEnd) -> None:
    request = kernel.execute("input('who? ')", allow_stdin=True)
    kernel.wait(lambda: kernel.of(request, "input_request"))
    # Past the asking, or the traceback shows where in it the signal came.
    kernel.listen_for(SETTLED_S)
    kernel.interrupt()
    kernel.finish(request)
    again = kernel.execute("input('again? ')", allow_stdin=True)
    kernel.answer(again, "yes")
    kernel.finish(again)


def queue_interrupted(kernel: FrontEnd) -> None:
    first = kernel.execute("print('begun', flush=True); time.sleep(600)")
    second = kernel.execute("'behind'")
    kernel.wait_text(first, "begun")
    kernel.listen_for(SETTLED_S)
    kernel.interrupt()
    kernel.finish(first, second)


def nothing_interrupted(kernel: FrontEnd) -> None:
    kernel.interrupt()
    kernel.run("'unharmed'")


def subshell(kernel: FrontEnd) -> None:
    made = kernel.ask("control", "create_subshell_request")["subshell_id"]
    kernel.run("import threading; gate = threading.Event()")
    busy = kernel.execute(
        "print('begun', flush=True)\nprint('main', gate.wait(600)); 'main is done'"
    )
    kernel.wait_text(busy, "begun")
    beside = kernel.execute(
        "print('beside', flush=True); shared = 1\n"
        "threading.current_thread() is threading.main_thread()",
        subshell=made,
    )
    kernel.finish(beside)
    asked = kernel.send(
        "shell", "complete_request", {"code": "share", "cursor_pos": 5}, subshell=made
    )
    kernel.finish(asked)
    kernel.ask("control", "list_subshell_request")
    kernel.finish(kernel.execute("gate.set()", subshell=made), busy)
    kernel.ask("control", "delete_subshell_request", subshell_id=made)
    kernel.ask("control", "list_subshell_request")
    kernel.run("shared")


def subshell_comm(kernel: FrontEnd) -> None:
    made = kernel.ask("control", "create_subshell_request")["subshell_id"]
    kernel.run(
        "gate = threading.Event()\n"
        "slider = ipywidgets.IntSlider(1)\n"
        "slider.observe(lambda change: gate.set(), 'value')"
    )
    comm = kernel.of("request 2", "comm_open")[-1].content["comm_id"]
    busy = kernel.execute(
        "print('begun', flush=True)\nprint('moved while this ran:', gate.wait(30), slider.value)"
    )
    kernel.wait_text(busy, "begun")
    update = {"method": "update", "state": {"value": 8}, "buffer_paths": list[str]()}
    content = {"comm_id": comm, "data": update}
    moved = kernel.send("shell", "comm_msg", content, subshell=made)
    kernel.wait(lambda: kernel.is_idle(moved))
    kernel.finish(busy)
    kernel.ask("control", "delete_subshell_request", subshell_id=made)


def subshell_error(kernel: FrontEnd) -> None:
    made = kernel.ask("control", "create_subshell_request")["subshell_id"]
    kernel.finish(kernel.execute("1/0", subshell=made))
    kernel.ask("control", "delete_subshell_request", subshell_id=made)


def subshell_unknown(kernel: FrontEnd) -> None:
    kernel.finish(kernel.execute("'nowhere'", subshell="f" * 32))
    kernel.ask("control", "delete_subshell_request", subshell_id="f" * 32)


STOPPING: dict[str, Play] = {
    **{name: partial(interrupted, code) for name, code in INTERRUPTED.items()},
    "an await interrupted": partial(await_interrupted, "asyncio.sleep(12)"),
    "awaits gathered and interrupted": partial(
        await_interrupted, "asyncio.gather(asyncio.sleep(12), asyncio.sleep(12))"
    ),
    "a question interrupted": question_interrupted,
    "cells behind one that is interrupted": queue_interrupted,
    "an interrupt of nothing": nothing_interrupted,
    "a subshell": subshell,
    "a slider moved over a subshell while a cell runs": subshell_comm,
    "an error in a subshell": subshell_error,
    "a subshell nobody knows": subshell_unknown,
}

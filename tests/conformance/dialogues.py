"""What front ends do with a kernel beyond running a cell: played on stock ipykernel and on ours."""

from functools import partial

from tests.conformance.debugging import DEBUGGING
from tests.conformance.recorder import FrontEnd, Play
from tests.conformance.snippets import CELLS
from tests.conformance.stopping import STOPPING


def run_cells(cells: str | tuple[str, ...], kernel: FrontEnd) -> None:
    for cell in (cells,) if isinstance(cells, str) else cells:
        kernel.run(cell)


def silent(kernel: FrontEnd) -> None:
    kernel.run("hidden = 1; print('unheard'); 5", silent=True)
    kernel.run("1/0", silent=True)
    kernel.run("hidden")


def not_stored(kernel: FrontEnd) -> None:
    kernel.run("unstored = 2; unstored", store_history=False)
    kernel.run("unstored, len(In) - len(set(range(len(In))))")


def user_expressions(kernel: FrontEnd) -> None:
    asked = {"fine": "1 + 1", "failing": "1/0", "wrong": "= 1", "rich": "IPython.display.HTML('x')"}
    kernel.run("import IPython\nbase = 1", user_expressions=asked)
    kernel.run("1/0", user_expressions=asked)
    kernel.run("5", silent=True, user_expressions={"base": "base"})


def question(kernel: FrontEnd) -> None:
    request = kernel.execute("name = input('who? '); print('hello', name); name", allow_stdin=True)
    kernel.answer(request, "ñ 漢")
    kernel.finish(request)


def password(kernel: FrontEnd) -> None:
    request = kernel.execute("import getpass; len(getpass.getpass('secret: '))", allow_stdin=True)
    kernel.answer(request, "12345")
    kernel.finish(request)


def two_questions(kernel: FrontEnd) -> None:
    request = kernel.execute("print('sum', int(input()) + int(input('and ')))", allow_stdin=True)
    kernel.answer(request, "1")
    kernel.answer(request, "2", times=2)
    kernel.finish(request)


def many_questions(kernel: FrontEnd) -> None:
    request = kernel.execute("[input(f'{n}? ') for n in range(20)]", allow_stdin=True)
    for n in range(20):
        kernel.answer(request, str(n), times=n + 1)
    kernel.finish(request)


def end_of_input(kernel: FrontEnd) -> None:
    request = kernel.execute("input('more? ')", allow_stdin=True)
    kernel.answer(request, "\x04")
    kernel.finish(request)


def no_questions(kernel: FrontEnd) -> None:
    kernel.run("input('who? ')", allow_stdin=False)
    kernel.run("import getpass; getpass.getpass()", allow_stdin=False)


def completion(kernel: FrontEnd) -> None:
    # A slow host's list of modules is announced in the cell, and given up after a while.
    kernel.run(
        "import IPython.core.completerlib as modules\n"
        "modules.TIMEOUT_STORAGE = modules.TIMEOUT_GIVEUP = 3600",
        silent=True,
    )
    kernel.run("wörter = 'x'; long_name_one = long_name_two = {'key one': 1, 'key two': 2}")
    for code in (
        "zi",
        "long_n",
        "long_name_one['key ",
        "long_name_one.",
        "wört",
        "import jso",
        "from json import du",
        "%tim",
        "%%ba",
        "'/usr/bi",
        "nothing_like_this",
        "print(long_name_one, fil",
    ):
        kernel.ask("shell", "complete_request", code=code, cursor_pos=len(code))


def completion_in_the_middle(kernel: FrontEnd) -> None:
    code = "first = long_n; later = '\U0001f600'\nwört\nlast"
    for cursor in (14, len("first = long_n; later = '\U0001f600'\nwört"), len(code)):
        kernel.ask("shell", "complete_request", code=code, cursor_pos=cursor)


def inspection(kernel: FrontEnd) -> None:
    kernel.run("def inspected(a: int, *, b=2):\n    'Says what.'\n    return a")
    for code, cursor in (
        ("inspected", 4),
        ("inspected(1, ", 13),
        ("x = inspected(len", 17),
        ("nothing_here", 3),
        ("", 0),
        ("%time", 5),
    ):
        for level in (0, 1):
            kernel.ask("shell", "inspect_request", code=code, cursor_pos=cursor, detail_level=level)


def completeness(kernel: FrontEnd) -> None:
    for code in (
        "1",
        "x = 1\n",
        "for n in range(3):",
        "for n in range(3):\n    pass",
        "for n in range(3):\n    pass\n",
        "'''open",
        "x = = 1",
        "(1,",
        "%%time",
        "%%time\nx\n",
        "!ls",
        "@decorator",
        "x = 1 + \\",
        "",
    ):
        kernel.ask("shell", "is_complete_request", code=code)


def history(kernel: FrontEnd) -> None:
    kernel.run("remembered = 'needle'")
    kernel.run("remembered")
    plain = {"raw": True, "output": False}
    for asked in (
        {"hist_access_type": "tail", "n": 4, **plain},
        {"hist_access_type": "tail", "n": 3, "raw": False, "output": True},
        {"hist_access_type": "range", "session": 0, "start": 1, "stop": 4, **plain},
        {"hist_access_type": "search", "pattern": "remem*", "n": 10, "unique": True, **plain},
        {"hist_access_type": "search", "pattern": "nothing like it", "n": 10, **plain},
    ):
        kernel.ask("shell", "history_request", **asked)


REGISTER = """
def opened(comm, message):
    comm.on_msg(lambda message: comm.send(
        {'echo': message['content']['data']}, buffers=message['buffers'][::-1]))
    comm.on_close(lambda message: print('closed', message['content']['data']))
    comm.send({'opened with': message['content']['data']}, metadata={'m': 1})
get_ipython().kernel.comm_manager.register_target('echo', opened)
"""


def comms_from_here(kernel: FrontEnd) -> None:
    kernel.run(REGISTER)
    comm = "c" * 32
    kernel.tell("comm_open", comm_id=comm, target_name="echo", data={"n": 1})
    kernel.tell("comm_msg", comm_id=comm, data={"n": 2}, buffers=[b"\x00one", b"", b"two" * 9999])
    kernel.ask("shell", "comm_info_request")
    kernel.ask("shell", "comm_info_request", target_name="echo")
    kernel.ask("shell", "comm_info_request", target_name="other")
    kernel.tell("comm_close", comm_id=comm, data={"why": "enough"})
    kernel.ask("shell", "comm_info_request", target_name="echo")


def comms_from_there(kernel: FrontEnd) -> None:
    kernel.run(
        "from comm import create_comm\n"
        "c = create_comm('theirs', data={'a': 1}, metadata={'m': 2}, buffers=[b'\\x00\\xff'])\n"
        "c.on_msg(lambda m: print('got', m['content']['data'], [bytes(b) for b in m['buffers']]))\n"
        "c.send({'b': 2}, buffers=[b'x' * 10, memoryview(b'y')])"
    )
    opened = kernel.of("request 1", "comm_open")
    kernel.tell("comm_msg", [b"back"], comm_id=opened[0].content["comm_id"], data={"c": 3})
    kernel.run("c.close({'d': 4})")


def comms_unknown(kernel: FrontEnd) -> None:
    kernel.tell("comm_open", comm_id="d" * 32, target_name="nobody's", data={})
    kernel.tell("comm_msg", comm_id="e" * 32, data={})
    kernel.tell("comm_close", comm_id="e" * 32, data={})


def slider_moved(kernel: FrontEnd) -> None:
    kernel.run("moved = ipywidgets.IntSlider(1)\nmoved.observe(lambda c: print(c['new']), 'value')")
    opened = [m for m in kernel.of("request 1", "comm_open") if "value" in str(m.content)]
    comm = opened[-1].content["comm_id"]
    update = {"method": "update", "state": {"value": 8}}
    kernel.tell("comm_msg", comm_id=comm, data={**update, "buffer_paths": list[str]()})
    kernel.tell("comm_msg", comm_id=comm, data={"method": "request_state"})
    kernel.run("moved.value")


def callback_asks(kernel: FrontEnd) -> None:
    kernel.run(
        "asking = ipywidgets.Text()\n"
        "def ask(change):\n"
        "    try: print('told', input('in a callback? '))\n"
        "    except Exception as error: print(type(error).__name__, error)\n"
        "asking.observe(ask, 'value')"
    )
    comm = kernel.of("request 1", "comm_open")[-1].content["comm_id"]
    update = {"method": "update", "state": {"value": "x"}, "buffer_paths": list[str]()}
    kernel.tell("comm_msg", comm_id=comm, data=update)


def thread_prints_later(kernel: FrontEnd) -> None:
    request = kernel.run(
        "import threading, time\n"
        "def late(): time.sleep(4); print('late')\n"
        "threading.Thread(target=late).start()"
    )
    kernel.wait_text(request, "late")


def thread_fails(kernel: FrontEnd) -> None:
    kernel.run(
        "def fail(): raise ValueError('in a thread')\n"
        "thread = threading.Thread(target=fail, name='T'); thread.start(); thread.join()"
    )


def facts(kernel: FrontEnd) -> None:
    for channel in ("shell", "control"):
        kernel.ask(channel, "kernel_info_request")


def connection(kernel: FrontEnd) -> None:
    kernel.ask("shell", "connect_request")


def usage(kernel: FrontEnd) -> None:
    kernel.ask("control", "usage_request")


def unknown(kernel: FrontEnd) -> None:
    for channel in ("shell", "control"):
        request = kernel.send(channel, "nobody_knows_request", {"a": 1})
        kernel.wait(lambda request=request: kernel.is_idle(request))
    kernel.run("'still here'")


def many_cells(kernel: FrontEnd) -> None:
    kernel.finish(*[kernel.execute(f"print({n}); {n}") for n in range(10)])


def stop_on_error(kernel: FrontEnd) -> None:
    first = kernel.execute("time.sleep(1); 1/0")
    kernel.finish(first, kernel.execute("'not run'"), kernel.execute("'nor this'"))
    kernel.run("'run again'")


def go_on_after_error(kernel: FrontEnd) -> None:
    first = kernel.execute("time.sleep(0.5); 1/0", stop_on_error=False)
    kernel.finish(first, kernel.execute("'run all the same'"))


def others_queued_behind_an_error(kernel: FrontEnd) -> None:
    first = kernel.execute("time.sleep(1); 1/0")
    asked = kernel.send("shell", "complete_request", {"code": "zi", "cursor_pos": 2})
    info = kernel.send("shell", "comm_info_request", {"target_name": "other"})
    kernel.finish(first, asked, info)


PLAIN = {name: partial(run_cells, cells) for name, cells in CELLS.items()}
DIALOGUES: dict[str, Play] = {
    "silent cells": silent,
    "a cell not kept in the history": not_stored,
    "user expressions": user_expressions,
    "input": question,
    "a password": password,
    "two questions": two_questions,
    "many questions": many_questions,
    "the end of input": end_of_input,
    "input that is not allowed": no_questions,
    "completion": completion,
    "completion in the middle": completion_in_the_middle,
    "inspection": inspection,
    "is a cell complete": completeness,
    "history": history,
    "comms opened by the front end": comms_from_here,
    "comms opened by the kernel": comms_from_there,
    "comms nobody knows": comms_unknown,
    "a slider moved": slider_moved,
    "a question in a widget's callback": callback_asks,
    "a thread that prints after its cell": thread_prints_later,
    "a thread that fails": thread_fails,
    "kernel info": facts,
    "connection info": connection,
    "usage": usage,
    "requests nobody knows": unknown,
    "ten cells at once": many_cells,
    "cells behind an error": stop_on_error,
    "cells behind an error that is not to stop them": go_on_after_error,
    "other requests behind an error": others_queued_behind_an_error,
}
SNIPPETS: dict[str, Play] = {**PLAIN, **DIALOGUES, **STOPPING, **DEBUGGING}
# What goes on beside each other has an order within itself only.
CONCURRENT = frozenset(STOPPING) | frozenset(DEBUGGING)

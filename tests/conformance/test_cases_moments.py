"""Cases from other projects' bug reports: what checkpoints, rollbacks and forks get wrong.

docs/fidelity.md says which case is which; most of them are tests of tests/vm already.
"""

import json
from datetime import datetime
from itertools import pairwise

import pytest
from tests.conformance.recorder import FrontEnd
from tests.support.live_kernel import LiveKernel

pytestmark = [pytest.mark.vm, pytest.mark.timeout(600)]

TICKER = """
import asyncio, json, time
ticks = []
async def tick():
    while True:
        await asyncio.sleep(0.05)
        ticks.append(time.monotonic())
ticking = asyncio.create_task(tick())
"""
UNHARMED = """
import http.server, socket, sqlite3, threading, urllib.request
database = sqlite3.connect('unharmed.db', isolation_level=None)
database.execute('create table if not exists n (v)')
database.execute('begin'); database.execute('insert into n values (1)')
near, far = socket.socketpair()
class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Quiet)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f'http://127.0.0.1:{server.server_port}/'
kept = socket.create_connection(server.server_address)
near.send(b'before')
"""


def test_a_fork_goes_on_with_the_values_and_the_numbers_of_its_parent(
    shared_kernel: LiveKernel,
) -> None:
    shared_kernel.run("x = 21")
    count = FrontEnd(shared_kernel.client)
    before = count.reply(count.run("x"))["execution_count"]
    shared_kernel.run("%fork 1 --names child\n%switch child")
    front_end = FrontEnd(shared_kernel.client)
    cell = front_end.run("x + 1")
    assert front_end.of(cell, "execute_result")[0].content["data"]["text/plain"] == "22"
    assert front_end.reply(cell)["execution_count"] == before + 1
    shared_kernel.run("%switch main")


def test_a_task_that_ticks_neither_stalls_nor_storms_over_a_rollback(
    shared_kernel: LiveKernel,
) -> None:
    shared_kernel.run(TICKER)
    shared_kernel.run("await asyncio.sleep(0.5)\nlen(ticks)")
    shared_kernel.run("%checkpoint ticking")
    shared_kernel.run("await asyncio.sleep(2)")
    shared_kernel.run("%rollback ticking")
    told = shared_kernel.run("await asyncio.sleep(1)\nticking.cancel()\nprint(json.dumps(ticks))")
    ticks: list[float] = json.loads(told.text)
    gaps = [later - earlier for earlier, later in pairwise(ticks)]
    assert len(ticks) > 1
    # A tick caught up for would follow another at once.
    assert min(gaps) >= 0.05


def test_a_checkpoint_leaves_the_connections_and_transactions_of_what_goes_on_alone(
    shared_kernel: LiveKernel,
) -> None:
    shared_kernel.run(UNHARMED)
    shared_kernel.run("%checkpoint unharmed")
    assert shared_kernel.value("far.recv(6), database.in_transaction") == "b'before' True"
    shared_kernel.run("database.execute('commit')")
    assert shared_kernel.value("urllib.request.urlopen(url).status") == "200"
    shared_kernel.run("kept.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')")
    assert shared_kernel.value("kept.recv(15)") == "b'HTTP/1.0 200 OK'"
    shared_kernel.run("server.shutdown()")


def test_times_after_a_rollback_are_never_before_those_of_the_request(
    shared_kernel: LiveKernel,
) -> None:
    shared_kernel.run("import time\n%checkpoint timed")
    shared_kernel.run("time.sleep(3)")
    shared_kernel.run("%rollback timed")
    client = shared_kernel.client
    sent = client.execute("1")
    asked: list[datetime] = []
    dates: list[datetime] = []
    while True:
        message = client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") != sent:
            continue
        asked.append(message["parent_header"]["date"])
        dates.append(message["header"]["date"])
        if message["content"].get("execution_state") == "idle":
            break
    assert asked[0] <= dates[0]
    assert dates == sorted(dates)


def test_a_subshell_is_in_a_fork_too_and_gone_where_it_was_not_yet_made(
    shared_kernel: LiveKernel,
) -> None:
    shared_kernel.run("%checkpoint without")
    front_end = FrontEnd(shared_kernel.client)
    made = front_end.ask("control", "create_subshell_request")["subshell_id"]
    shared_kernel.run("%fork 1 --names with\n%switch with")
    cell = front_end.execute("40 + 2", subshell=made)
    front_end.finish(cell)
    assert front_end.reply(cell)["status"] == "ok"
    shared_kernel.run("%rollback without")
    lost = front_end.execute("40 + 2", subshell=made)
    front_end.finish(lost)
    assert front_end.reply(lost)["status"] == "error"
    assert front_end.ask("control", "list_subshell_request")["subshell_id"] == []
    shared_kernel.run("%switch main")


def test_what_a_thread_prints_after_a_rollback_is_under_the_cell_that_started_it(
    shared_kernel: LiveKernel,
) -> None:
    front_end = FrontEnd(shared_kernel.client)
    starting = front_end.run(
        "import threading, time\nstop = threading.Event()\n"
        "def say():\n    while not stop.wait(0.1): print('said', flush=True)\n"
        "threading.Thread(target=say).start()"
    )
    front_end.run("%checkpoint saying")
    shared_kernel.run("stop.set()")
    front_end.run("%rollback saying")
    told = len(front_end.of(starting, "stream"))
    front_end.wait(lambda: len(front_end.of(starting, "stream")) > told)
    front_end.run("stop.set()")

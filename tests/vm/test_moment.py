"""The moment, not the work: what is held at a checkpoint runs on, rolled back and in every fork."""

from dataclasses import dataclass

import pytest
from tests.support.live_kernel import LiveKernel

pytestmark = pytest.mark.vm

EVERYWHERE = ("main", "a", "b", "c")

HELD = r"""
import asyncio, hashlib, os, queue, signal, socket, sqlite3, subprocess, threading, time
from pathlib import Path

site = Path.home() / "site"
site.mkdir()
(site / "index.html").write_bytes(os.urandom(300_000))
server = subprocess.Popen(
    ["python3", "-m", "http.server", "8000", "--bind", "127.0.0.1"], cwd=site,
    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

def fetch():
    with socket.create_connection(("127.0.0.1", 8000)) as connection:
        connection.sendall(b"GET /index.html HTTP/1.0\r\n\r\n")
        with connection.makefile("rb") as answer:
            return answer.read().partition(b"\r\n\r\n")[2]

def started_at(pid):
    "When Linux started this process: a new one with the same number has another."
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])

ticker = subprocess.Popen(
    ["bash", "-c", "i=590; while read -r line; do i=$((i+1)); echo $i; done"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
def tick():
    ticker.stdin.write("\n")
    return int(ticker.stdout.readline())

pipe = subprocess.Popen(
    ["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
pipe.stdin.write("sent before\n")

def squares():
    number = 0
    while True:
        yield number * number
        number += 1
generator = squares()

def count(asked, told):
    "Its count is in a frame of its own thread and nowhere else."
    number = 0
    while asked.get():
        number += 1
        told.put(number)
asked, told = queue.Queue(), queue.Queue()
thread = threading.Thread(target=count, args=(asked, told), daemon=True)
thread.start()
def count_in_thread():
    asked.put(True)
    return told.get(timeout=60)

async def count_in_task(asked, told):
    number = 0
    while await asked.get():
        number += 1
        await told.put(number)
task_asked, task_told = asyncio.Queue(), asyncio.Queue()
task = asyncio.create_task(count_in_task(task_asked, task_told))
async def ask_task():
    await task_asked.put(True)
    return await asyncio.wait_for(task_told.get(), 60)

memory = sqlite3.connect(":memory:")
memory.execute("create table n (value)")
memory.commit()
memory.execute("insert into n values (41)")

disk = sqlite3.connect("held.db", timeout=60)
disk.execute("create table n (value)")
disk.commit()
disk.execute("insert into n values (41)")

def committed():
    with sqlite3.connect("held.db") as other:
        return [value for (value,) in other.execute("select value from n")]

listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
far, _ = listener.accept()
far.sendall(b"under way")

half = open("half.txt", "w")
half.write("the first half")

noted = [tick(), tick(), next(generator), next(generator), count_in_thread(), await ask_task()]
while True:
    try:
        page = fetch()
        break
    except ConnectionRefusedError:
        assert server.poll() is None
        time.sleep(0.2)
"""

WRECK = r"""
for process in (server, ticker, pipe):
    process.kill(); process.wait()
(site / "index.html").write_text("not this")
asked.put(False); thread.join()
task.cancel()
memory.close()
disk.rollback(); disk.close()
generator.close()
near.close(); far.close(); listener.close()
half.write(" and then something else"); half.close()
for name in ("held.db", "half.txt"):
    os.remove(name)
"""


@dataclass(frozen=True)
class Held:
    """A kernel back at a checkpoint after all was wrecked, with forks of it; and what was then."""

    kernel: LiveKernel
    pid: str
    started: str
    digest: str

    def everywhere(self, code: str) -> set[str]:
        """What a cell prints rolled back and in each fork: one text, if they agree."""
        return set(self.kernel.in_branches(code, EVERYWHERE).values())

    def value(self, expression: str) -> set[str]:
        """What an expression gives rolled back and in each fork."""
        return self.everywhere(f"print({expression})")


@pytest.fixture(scope="module")
def held(shared_kernel: LiveKernel) -> Held:
    shared_kernel.run(HELD)
    assert shared_kernel.value("noted") == "[591, 592, 0, 1, 1, 1]"
    moment = Held(
        shared_kernel,
        pid=shared_kernel.value("server.pid"),
        started=shared_kernel.value("started_at(server.pid)"),
        digest=shared_kernel.value("hashlib.sha256(page).hexdigest()"),
    )
    shared_kernel.run("%checkpoint held")
    shared_kernel.run("%fork 3 --names a,b,c")
    shared_kernel.run(WRECK)
    shared_kernel.run("%rollback held")
    return moment


def test_a_counter_in_a_shell_carries_on_from_its_value(held: Held) -> None:
    assert held.value("tick(), tick()") == {"593 594"}


def test_a_killed_process_is_back_at_its_pid(held: Held) -> None:
    alive = "os.kill(server.pid, 0), server.pid, started_at(server.pid)"
    assert held.value(alive) == {f"None {held.pid} {held.started}"}


def test_the_kernel_itself_keeps_its_pid(held: Held) -> None:
    assert len(held.value("os.getpid()")) == 1


def test_a_wrecked_page_is_on_the_disk_as_it_was_byte_for_byte(held: Held) -> None:
    digest = "hashlib.sha256((site / 'index.html').read_bytes()).hexdigest()"
    assert held.value(digest) == {held.digest}


def test_a_web_server_serves_its_page_byte_for_byte(held: Held) -> None:
    assert held.value("hashlib.sha256(fetch()).hexdigest()") == {held.digest}


def test_a_generator_goes_on_where_it_was(held: Held) -> None:
    assert held.value("next(generator), next(generator)") == {"4 9"}


def test_a_thread_goes_on_in_its_frame(held: Held) -> None:
    assert held.value("count_in_thread(), thread.is_alive()") == {"2 True"}


def test_an_asyncio_task_goes_on_in_its_frame(held: Held) -> None:
    assert held.value("await ask_task(), task.done()") == {"2 False"}


def test_what_was_in_a_pipe_arrives_and_more_can_be_sent(held: Held) -> None:
    code = """
pipe.stdin.write("sent after\\n")
print([pipe.stdout.readline(), pipe.stdout.readline()])
"""
    assert held.everywhere(code) == {"['sent before\\n', 'sent after\\n']"}


def test_a_transaction_of_a_database_in_memory_is_still_open(held: Held) -> None:
    code = """
inside = memory.execute("select value from n").fetchall()
open_before = memory.in_transaction
memory.rollback()
print(inside, open_before, memory.execute("select value from n").fetchall())
"""
    assert held.everywhere(code) == {"[(41,)] True []"}


def test_a_transaction_of_a_database_on_disk_is_still_open_and_can_be_committed(held: Held) -> None:
    code = """
before = committed()
disk.execute("insert into n values (42)")
disk.commit()
print(before, committed())
"""
    assert held.everywhere(code) == {"[] [41, 42]"}


def test_a_connection_within_the_guest_holds_with_what_was_under_way(held: Held) -> None:
    code = """
near.sendall(b"hello")
first = near.recv(100)
heard = far.recv(100)
far.sendall(b"good day")
print(first, heard, near.recv(100))
"""
    assert held.everywhere(code) == {"b'under way' b'hello' b'good day'"}


def test_a_listening_socket_takes_new_connections(held: Held) -> None:
    code = """
with socket.create_connection(listener.getsockname()) as caller:
    called, _ = listener.accept()
    with called:
        caller.sendall(b"anyone there?")
        print(called.recv(100))
"""
    assert held.everywhere(code) == {"b'anyone there?'"}


def test_a_half_written_file_is_written_to_its_end(held: Held) -> None:
    code = """
half.write(" and the second")
half.close()
print(Path("half.txt").read_text())
"""
    assert held.everywhere(code) == {"the first half and the second"}

"""Homes in which sessions were opened, left in the middle, and what looks like their machines."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.unit.lineage.facts import a_base, a_branch, a_checkpoint, a_session

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage.journal import Journal

OPEN, CLOSED = "0pen00000000", "c105ed000000"
KEYS = {OPEN: "open.ipynb", CLOSED: "zu-größe.ipynb"}
_SLEEP = "import sys, time; print('up', flush=True); time.sleep(600)"
# Started by a process that ends at once, so that it has another parent than the one it began with.
_ORPHANED = """
import subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
import os; os._exit(0)
"""


def a_home(folder: Path) -> Home:
    home = Home(folder / "ein Heim, größer", folder / "ein Heim, größer" / "run")
    home.ensure()
    return home


def with_sessions(home: Home, *, checkpoints: int = 2) -> None:
    """Two sessions on record, each with files: of checkpoints, of its edge."""
    with Journal.open(home.database) as journal:
        journal.add_checkpoint(a_base(), advance=None)
        for session, key in KEYS.items():
            journal.add_session(a_session(session, key))
            parent = "base0000"
            journal.put_branch(a_branch("main", parent, session=session))
            for number in range(checkpoints):
                made = a_checkpoint(f"{session}-{number}", parent, session=session, minute=number)
                journal.add_checkpoint(made, advance=made.branch)
                a_file(home.layers / session / made.id / "memory")
                parent = made.id
            a_file(home.session(session) / "authority.pem")
    a_file(home.layers / "base" / "base0000" / "memory")


def a_file(path: Path, size: int = 8192) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\1" * size)
    return path


def left_by_a_killed_owner(home: Home, session: str) -> set[Path]:
    """What it leaves in the folders of what lives."""
    with socket.socket(socket.AF_UNIX) as left, _inside(home.run):
        left.bind(f"{session}.sock")
    a_file(home.live / session / "main" / "overlay.qcow2")
    a_file(home.flat / session / "image")
    return {home.control(session), home.live / session, home.flat / session}


@contextmanager
def machine(home: Home, session: str, *, orphaned: bool) -> Generator[int]:
    """A process that looks like a machine of a session; started by this one, or by nobody now."""
    escaped = str(home.live).replace(",", ",,")
    console = f"file,id=console,path={escaped}/{session}/main/console.log,append=on"
    command = [sys.executable, "-c", _SLEEP, "-chardev", console]
    with contextlib.ExitStack() as stack:
        if orphaned:
            started = subprocess.run(
                [sys.executable, "-c", _ORPHANED, *command], check=True, stdout=subprocess.PIPE
            )
            pid = int(started.stdout)
            stack.enter_context(_ended_after(pid))
        else:
            child = subprocess.Popen(command, stdout=subprocess.PIPE)
            stack.enter_context(child)
            stack.callback(child.kill)
            assert child.stdout
            child.stdout.readline()
            pid = child.pid
        yield pid


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended, waiting to be asked how or just being so."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@contextmanager
def _ended_after(pid: int) -> Generator[None]:
    """End a process if it is there still: by its number alone that may be another's by then."""
    process = os.pidfd_open(pid)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        os.close(process)


@contextmanager
def _inside(folder: Path) -> Generator[None]:
    with contextlib.chdir(folder):
        yield

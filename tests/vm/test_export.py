"""A running web server moved to another home: it answers there, as the same process."""

import asyncio
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.homes import lend_images

from branchpoint_vmruntime import Manifest, Runtime
from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.errors import IncompatibleError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.guest_image import GuestImage
from branchpoint_vmruntime.image.progress import SilentProgress
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointId
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.memory.sparse import bytes_on_disk
from branchpoint_vmruntime.storage.digests import check
from branchpoint_vmruntime.storage.exporting import export_checkpoint, newest_checkpoint
from branchpoint_vmruntime.storage.host_check import facts_here
from branchpoint_vmruntime.storage.importing import import_file
from branchpoint_vmruntime.store import Layer, MachineFacts

pytestmark = pytest.mark.vm

SERVER = '''
import subprocess, sys, time, urllib.request
code = """
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
visits = 0
class Counting(BaseHTTPRequestHandler):
    def do_GET(self):
        global visits
        visits += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{os.getpid()} {visits}".encode())
    def log_message(self, *_):
        pass
HTTPServer(("127.0.0.1", 8000), Counting).serve_forever()
"""
server = subprocess.Popen([sys.executable, "-c", code])
open("/root/notes.txt", "w").write("kept")
def ask():
    for _ in range(300):
        try:
            return urllib.request.urlopen("http://127.0.0.1:8000").read().decode()
        except OSError:
            time.sleep(0.1)
'''


async def ask(branch: Branch) -> tuple[int, int]:
    """The server's PID and how often it was asked."""
    result = await branch.run("print(ask())")
    pid, visits = str(result).split()
    return int(pid), int(visits)


async def save_a_server(home: Home) -> tuple[int, int]:
    async with Runtime(home) as runtime, runtime.session(Manifest(), key="a server") as session:
        await session.current.run(SERVER)
        await ask(session.current)
        answer = await ask(session.current)
        await session.checkpoint("serving")
    return answer


async def carry_on(home: Home, key: str) -> tuple[tuple[int, int], str]:
    async with (
        Runtime(home) as runtime,
        runtime.session(Manifest(), key=key, fresh=False) as session,
    ):
        await session.resume()
        assert session.current.name == "main"
        answer = await ask(session.current)
        notes = await session.current.run("print(open('/root/notes.txt').read())")
        # What comes after is saved like anything else.
        await session.checkpoint("later")
    return answer, str(notes).strip()


async def usual_base(home: Home) -> Checkpoint:
    """There may be others, of machines of another size."""
    async with Runtime(home) as runtime:
        return await runtime.base(Manifest())


@pytest.fixture(scope="module")
def second(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Another host's home: the same image, and a base that it made by itself."""
    root = tmp_path_factory.mktemp("second") / "home with ünïcode"
    made = Home(root, root / "run")
    lend_images(home, made)
    made.ensure()
    with Journal.open(made.database) as ours:
        base = asyncio.run(usual_base(home))
        folder = home.layers / "base" / base.id
        own = CheckpointId("0123456789ab")
        (made.layers / "base").mkdir(mode=0o700)
        target = made.layers / "base" / own
        subprocess.run(["cp", "-r", "--sparse=always", folder, target], check=True)
        ours.add_checkpoint(replace(base, id=own), advance=None)
    return made


def test_a_web_server_moved_to_another_home_answers_there_as_the_same_process(
    home: Home, second: Home, tmp_path: Path
) -> None:
    pid, visits = asyncio.run(save_a_server(home))
    with Journal.read(home.database) as journal:
        session = journal.session_by_key("a server")
        assert session is not None
        checkpoint = newest_checkpoint(journal, session)
    silent = SilentProgress()
    file = tmp_path / "serving.bp"
    export_checkpoint(home, session, checkpoint, file, progress=silent)

    def elsewhere(there: Home, image: GuestImage, saved: MachineFacts) -> MachineFacts:
        return replace(facts_here(there, image, saved), qemu="QEMU 99.0.0 (another build)")

    with pytest.raises(IncompatibleError, match=r"qemu was .* and is QEMU 99\.0\.0"):
        import_file(second, file, progress=silent, facts=elsewhere)

    # Nothing of the first home is needed any more.
    moved = second.root / "moved.bp"
    shutil.move(file, moved)
    imported = import_file(second, moved, progress=silent)
    base = Layer(second.layers / "base" / imported.branch.origin)
    assert bytes_on_disk(base.memory) < base.memory.stat().st_size // 2
    assert check(Layer(second.layers / imported.session.id / checkpoint.id)) == []
    answer, notes = asyncio.run(carry_on(second, imported.session.key))
    assert answer == (pid, visits + 1)
    assert notes == "kept"

"""Servers that stall, break off or lead astray: each ends in words, and in a line of the ledger."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.support.bad_server import ELSEWHERE, BadServer, bad_server
from tests.support.live_kernel import LiveKernel, live_kernel, wait_until
from tests.support.made_up_names import names_lead

from branchpoint_vmruntime.home import Home

pytestmark = pytest.mark.vm

PEER, INWARD = "peer.example.org", "inward.example.org"
WANTED_BYTES = 50_000_000
GROWTH_LIMIT_BYTES = 64 << 20
ENDLESS = "/endless"
ASK = """
import subprocess
def ask(url, *options):
    done = subprocess.run(["curl", "-sS", *options, url], capture_output=True, text=True)
    print(done.stdout, done.stderr)
"""


@pytest.fixture(scope="module")
def peer() -> Generator[BadServer]:
    """The server."""
    with bad_server() as server:
        yield server


@pytest.fixture(scope="module")
def opened(
    home: Home, peer: BadServer, tmp_path_factory: pytest.TempPathFactory
) -> Generator[LiveKernel]:
    """A kernel that may reach the server, by a name; and another name that leads there as well."""
    folder = tmp_path_factory.mktemp("names")
    names = names_lead(folder, {PEER: "127.0.0.1", INWARD: "127.0.0.1"})
    assert home.database.exists()
    with live_kernel("bad-peers", cwd=tmp_path_factory.mktemp("cwd"), **names) as kernel:
        kernel.run(ASK)
        kernel.run(f"%egress allow {PEER}:{peer.port} --private")
        kernel.run(f"%egress allow {INWARD}:{peer.port}")
        yield kernel


def newest(kernel: LiveKernel, count: int = 1) -> list[dict[str, Any]]:
    """The last lines of the ledger, once all that was let out has ended there."""
    found: list[dict[str, Any]] = []

    def have_ended() -> bool:
        found[:] = kernel.run("%ledger").record["entries"][-count:]
        return all(it["decision"] != "allowed" or it["state"] for it in found)

    assert wait_until(have_ended), found
    return found


@pytest.mark.parametrize(
    ("path", "words", "note"),
    [
        ("/reset", "was cut off", "was cut off"),
        ("/ends", "ended the connection without a reply", "without a reply"),
        ("/no-http", "sent what is no HTTP", "no HTTP"),
        ("/two-lengths", "sent what is no HTTP", "no HTTP"),
        ("/breaks-off", "curl: (56)", "in the middle of its reply"),
    ],
)
def test_a_broken_reply_is_told_and_recorded(
    opened: LiveKernel, peer: BadServer, path: str, words: str, note: str
) -> None:
    assert words in opened.run(f"ask('http://{PEER}:{peer.port}{path}')").text
    (entry,) = newest(opened)
    assert entry["url"] == f"http://{PEER}:{peer.port}{path}"
    assert (entry["decision"], entry["state"]) == ("allowed", "failed")
    assert note in entry["note"]


def test_a_redirect_to_where_nothing_may_go_is_refused(opened: LiveKernel, peer: BadServer) -> None:
    told = opened.run(f"ask('http://{PEER}:{peer.port}/redirect', '-L')").text
    assert "elsewhere.example.org:80 may not be reached" in told
    redirect, refused = newest(opened, 2)
    assert (redirect["status"], redirect["state"]) == (302, "done")
    assert (refused["url"], refused["decision"]) == (ELSEWHERE, "refused")


def test_a_name_that_leads_to_the_host_itself_is_refused(
    opened: LiveKernel, peer: BadServer
) -> None:
    told = opened.run(f"ask('http://{INWARD}:{peer.port}/inward')").text
    assert f"{INWARD} leads to 127.0.0.1, an address of the host itself" in told
    assert newest(opened)[0]["decision"] == "refused"
    assert peer.asked["/inward"] == 0


def test_a_stalled_request_ends_with_the_interrupt_of_its_cell(
    opened: LiveKernel, peer: BadServer
) -> None:
    before = peer.asked["/stall"]
    waiting = opened.start(f"ask('http://{PEER}:{peer.port}/stall')")
    assert wait_until(lambda: peer.asked["/stall"] > before)
    opened.manager.interrupt_kernel()
    assert opened.finish(waiting).error_name == "KeyboardInterrupt"
    assert wait_until(lambda: newest(opened)[0]["state"] == "failed")


def test_beside_a_stalled_request_cells_and_magics_go_on(
    opened: LiveKernel, peer: BadServer
) -> None:
    before = peer.asked["/stall"]
    opened.run(f"stalled = subprocess.Popen(['curl', '-s', 'http://{PEER}:{peer.port}/stall'])")
    assert wait_until(lambda: peer.asked["/stall"] > before)
    assert opened.value("1 + 1") == "2"
    assert opened.run("%checkpoints").record["op"] == "checkpoints"
    assert "fine" in opened.run(f"ask('http://{PEER}:{peer.port}/fine')").text
    assert opened.value("stalled.poll()") == "None"
    opened.run("stalled.kill()\nstalled.wait()")


def test_a_reply_without_end_takes_no_memory_of_the_host(
    opened: LiveKernel, peer: BadServer
) -> None:
    process = Path(f"/proc/{opened.pid}")
    # From here on the kernel counts the most that the process has.
    (process / "clear_refs").write_text("5")
    before = memory(process, "VmRSS")
    read = (
        f"!curl -sS http://{PEER}:{peer.port}{ENDLESS} 2>/dev/null | head -c {WANTED_BYTES} | wc -c"
    )
    assert opened.run(read).text.strip() == str(WANTED_BYTES)
    assert memory(process, "VmHWM") - before < GROWTH_LIMIT_BYTES
    (entry,) = [each for each in newest(opened, 5) if each["url"].endswith(ENDLESS)]
    assert entry["state"] == "failed"
    assert WANTED_BYTES <= entry["received_bytes"] <= peer.sent_bytes + GROWTH_LIMIT_BYTES


def memory(process: Path, name: str) -> int:
    """A figure of a process's memory, in bytes."""
    lines = (process / "status").read_text().splitlines()
    (value,) = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(value) << 10

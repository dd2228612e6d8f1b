"""Snippets on stock ipykernel and on ours: every message compared, by channel and in order.

The oracle is a stock ipykernel in a guest of its own, driven there by the same recorder: the same
Python, packages, files and emulated processor, and nothing of ours between it and its client. One
on this host would differ in tracebacks, paths and speed, and each such difference would need an
excuse in which a fault of ours could hide.
"""

import base64
import json
import zlib
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from jupyter_core.utils import ensure_event_loop
from tests.conformance.dialogues import CONCURRENT, SNIPPETS
from tests.conformance.differences import DIFFERENCES
from tests.conformance.normal import Channels, normalise
from tests.conformance.recorder import FrontEnd, Heard, play, read
from tests.support.live_kernel import LiveKernel, live_kernel

from branchpoint_vmruntime.foundation import KERNEL_ARGV
from branchpoint_vmruntime.home import Home

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1800)]

RECORDING_S = 1200.0
RUN_STOCK = """
import base64, os, subprocess, sys, zlib
from pathlib import Path
root = Path("/tmp/oracle")
for path, text in {sources}.items():
    root.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
    root.joinpath(path).write_text(text)
environment = {{key: value for key, value in os.environ.items() if key in {kept}}}
environment |= {{"PYTHONPATH": str(root), "IPYTHONDIR": str(root / "ipython")}}
environment |= {{"JUPYTER_PATH": str(root)}}
subprocess.run([sys.executable, "-m", "tests.conformance.stock", str(root / "found.json")],
               env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
found = base64.b64encode(zlib.compress((root / "found.json").read_bytes())).decode()
print("", "found", found, "", sep="\\n")
"""
# Started as ours is, but for the hook.
SPEC = {
    "argv": [part for part in KERNEL_ARGV if not part.startswith("--ext")],
    "display_name": "stock",
    "language": "python",
}
# What guestd gives the kernel: stock gets no more.
ENVIRONMENT = ("HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "PATH")

Recording = Mapping[str, Sequence[Heard]]


def record_stock(cwd: Path) -> Recording:
    """What stock ipykernel says, in a guest."""
    sources = {
        f"tests/conformance/{path.name}": path.read_text()
        for path in Path(__file__).parent.glob("[!t]*.py")
    }
    sources["kernels/stock/kernel.json"] = json.dumps(SPEC)
    code = RUN_STOCK.format(sources=json.dumps(sources), kept=ENVIRONMENT)
    # The client makes this thread an event loop, and leaves it open.
    with closing(ensure_event_loop()), live_kernel("conformance-stock", cwd=cwd) as kernel:
        cell = kernel.finish(kernel.start(code), patience_s=RECORDING_S)
    assert cell.status == "ok", cell.text
    # A machine that a busy host keeps waiting is told of in the same place.
    found = cell.text.partition("\nfound\n")[2].partition("\n")[0]
    return read(zlib.decompress(base64.b64decode(found)).decode())


@pytest.fixture(scope="module")
def recordings(
    home: Home, shared_kernel: LiveKernel, tmp_path_factory: pytest.TempPathFactory
) -> Generator[dict[str, Recording]]:
    """Stock; ours; ours once more, rolled back to before all that."""
    with ThreadPoolExecutor(1) as beside:
        stock = beside.submit(record_stock, tmp_path_factory.mktemp("stock"))
        front_end = FrontEnd(shared_kernel.client)
        shared_kernel.run("%checkpoint before")
        fresh = play(front_end, SNIPPETS)
        shared_kernel.run("%rollback before --no-safety")
        restored = play(front_end, SNIPPETS)
        yield {"stock": stock.result(), "fresh": fresh, "restored": restored}


def comparable(recordings: Mapping[str, Recording], kernel: str, name: str) -> Channels:
    return normalise(recordings[kernel][name], concurrent=name in CONCURRENT)


@pytest.mark.parametrize("machine", ["fresh", "restored"])
@pytest.mark.parametrize("name", list(SNIPPETS))
def test_every_message_is_as_stock_ipykernels(
    recordings: dict[str, Recording], name: str, machine: str
) -> None:
    stock = comparable(recordings, "stock", name)
    ours = comparable(recordings, machine, name)
    assert "" not in stock, f"stock did not get through: {stock['']}"
    if name in DIFFERENCES:
        assert ours != stock, f"no difference any more: {DIFFERENCES[name].reason}"
        ours = DIFFERENCES[name].taken_out(ours)
    assert ours == stock


def test_there_are_differences_only_where_snippets_are() -> None:
    assert set(DIFFERENCES) <= set(SNIPPETS)
    assert len(SNIPPETS) >= 60

"""`python3 -m tests.conformance.stock FILE`: every snippet on stock ipykernel, written to a file.

Run in a guest, with the image's own Python and packages, and a kernelspec `stock`.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from jupyter_client.manager import KernelManager
from tests.conformance.dialogues import SNIPPETS
from tests.conformance.recorder import PATIENCE_S, FrontEnd, play, write


@contextmanager
def stock_kernel() -> Generator[FrontEnd]:
    """A front end of a stock ipykernel on the Python that runs this."""
    manager = KernelManager(kernel_name="stock")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE_S)
        yield FrontEnd(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    with stock_kernel() as front_end:
        Path(sys.argv[1]).write_text(write(play(front_end, SNIPPETS)))

"""`python -m tests.support.fake_emulator IMAGE [PAGE=BYTE ...]`: a process with a guest's memory.

Maps the image as QEMU does a machine's, writes those pages full of those bytes, says so, and stays.
"""

import mmap
import signal
import sys
from pathlib import Path

PAGE = mmap.PAGESIZE


def main(image: Path, *writes: str) -> None:
    """Map, write, wait to be ended."""
    with (
        image.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as memory,
    ):
        for write in writes:
            page, byte = (int(part) for part in write.split("="))
            memory[page * PAGE : (page + 1) * PAGE] = bytes([byte]) * PAGE
        print("written", flush=True)  # noqa: T201
        signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])

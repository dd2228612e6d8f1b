"""Small memories, what is written to them, and the layers between them."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile

from hypothesis import strategies as st

from branchpoint_vmruntime.memory.dirty import PAGE, Run
from branchpoint_vmruntime.memory.layer import PageRun, differing_runs, write_layer

PAGES = 12
MEMORY_BYTES = PAGES * PAGE

# Few different pages, zeros among them, so that pages equal to the parent's come up often; the
# last byte differs as well as the first. Chosen by number, to keep failing examples readable.
FILLS = (bytes(PAGE), b"\1" * PAGE, bytes(PAGE - 1) + b"\2", b"\3" + bytes(PAGE - 1))
_CHOICES = st.integers(0, len(FILLS) - 1)
CONTENTS = st.lists(_CHOICES, min_size=PAGES, max_size=PAGES)
WRITES = st.dictionaries(st.integers(0, PAGES - 1), _CHOICES, max_size=PAGES)


def filled(choices: Iterable[int]) -> bytes:
    """The memory of these pages."""
    return b"".join(FILLS[choice] for choice in choices)


def written(memory: bytes, writes: Mapping[int, int]) -> bytes:
    """The memory after the writes."""
    return b"".join(
        FILLS[writes[number]] if number in writes else page_of(memory, number)
        for number in range(len(memory) // PAGE)
    )


def page_of(memory: bytes, number: int) -> bytes:
    """One page of a memory."""
    return memory[number * PAGE : (number + 1) * PAGE]


def runs_of(pages: Iterable[int]) -> list[Run]:
    """The runs a machine that wrote these pages would show, neighbours joined."""
    wanted = sorted(pages)
    cuts = [0, *(at for at in range(1, len(wanted)) if wanted[at] != wanted[at - 1] + 1)]
    bounds = [*cuts, len(wanted)] if wanted else []
    return [
        Run((1 << 30) + wanted[first] * PAGE, wanted[first] * PAGE, (last - first) * PAGE)
        for first, last in pairwise(bounds)
    ]


def found_in(parent: bytes, writes: Mapping[int, int]) -> list[tuple[PageRun, memoryview]]:
    """What of the writes differs from the parent, with its bytes."""
    copied = memoryview(filled(writes[number] for number in sorted(writes)))
    with TemporaryFile() as file:
        file.write(parent)
        file.flush()
        return differing_runs(runs_of(writes), copied, file.fileno())


def make_layer(path: Path, parent: bytes, writes: Mapping[int, int]) -> int:
    """Save what the writes changed, as a checkpoint does; the size of the file."""
    return write_layer(path, len(parent), found_in(parent, writes))

"""Files in a memory that is full: read, not mapped, for a mapping has no other answer than SIGBUS.

Each is tried in a process of its own, with a mount of its own: it is that process that would end.
"""

import subprocess
import sys
from pathlib import Path

import pytest

_NOT_MOUNTED = 77
_IN_A_FULL_TMPFS = f"""
mount -t tmpfs -o size=1m branchpoint "$1" || exit {_NOT_MOUNTED}
truncate -s 8m "$1/sparse" || exit 1
dd if=/dev/zero of="$1/filling" bs=64k 2>/dev/null
exec "$2" -P -c "$3" "$1/sparse"
"""
COMPARE = """
import os, sys
from branchpoint_vmruntime.memory.dirty import Run
from branchpoint_vmruntime.memory.layer import PageRun, differing_runs
size = 8 << 20
parent = os.open(sys.argv[1], os.O_RDONLY)
found = differing_runs([Run(0, 0, size)], memoryview(b"x" * size), parent)
assert [run for run, _ in found] == [PageRun(0, size // 4096, zero=False)], found
"""
NORMALISE = """
import sys
from pathlib import Path
from branchpoint_vmruntime.errors import ImageBuildError
from branchpoint_vmruntime.image.ext4 import normalise
try:
    normalise(Path(sys.argv[1]))
except ImageBuildError:
    pass
"""


@pytest.mark.parametrize("done", [COMPARE, NORMALISE], ids=["compare", "normalise"])
def test_holes_are_read_in_a_memory_that_has_no_room_for_them(tmp_path: Path, done: str) -> None:
    argv = ["unshare", "-rm", "sh", "-c", _IN_A_FULL_TMPFS, "sh", tmp_path, sys.executable, done]
    ended = subprocess.run(argv, check=False, capture_output=True, text=True)
    if ended.returncode == _NOT_MOUNTED or "unshare failed" in ended.stderr:
        pytest.skip(f"no tmpfs can be mounted here: {ended.stderr.strip()}")
    assert ended.returncode == 0, ended.stderr

"""The front end's own tests, which vitest runs in a page of jsdom, and what is built of it."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.architecture.house import ROOT

NBEXT = ROOT / "nbext"
WIDGET = ROOT / "kernel" / "branchpoint_kernel" / "front_end" / "lineage.js"
MOST_BYTES = 150_000


def test_the_front_ends_own_tests_pass() -> None:
    node = Path(sys.executable).parent
    done = subprocess.run(
        [node / "npm", "test", "--silent"],
        cwd=NBEXT,
        env={**os.environ, "PATH": f"{node}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_file_that_a_kernel_sends_is_small_and_stands_alone() -> None:
    source = WIDGET.read_text()
    assert len(source.encode()) < MOST_BYTES
    # Nothing is to be had where a saved notebook's widget may be: neither packages nor addresses.
    assert re.search(r"""(^|;)import\b|\bimport\(""", source) is None
    assert "@jupyterlab" not in source

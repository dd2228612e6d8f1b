#!/usr/bin/env python3
"""Write the lock of the guest's Python packages anew: every version, and the hash of every wheel.

Run it with a Python of the guest's version, because pip judges markers by the Python it runs under:

    python3.11 tools/lock_guest_wheels.py
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "vmruntime"))

from branchpoint_vmruntime.image.recipe import GUEST_PYTHON, LOCK_FILE, WANTED_WHEELS  # noqa: E402
from branchpoint_vmruntime.image.wheels import target_options  # noqa: E402


def main() -> None:
    """Resolve what is wanted, newest first, and write what came of it."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" != GUEST_PYTHON:
        sys.exit(f"run this with Python {GUEST_PYTHON}")
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        argv = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--dry-run",
            "--ignore-installed",
        ]
        argv += ["--report", str(report), "--target", str(Path(scratch) / "target")]
        subprocess.run([*argv, *target_options(), *WANTED_WHEELS], check=True)
        installs = json.loads(report.read_text())["install"]
    lines = sorted(
        f"{item['metadata']['name'].lower()}=={item['metadata']['version']}"
        f" --hash=sha256:{item['download_info']['archive_info']['hashes']['sha256']}"
        for item in installs
    )
    LOCK_FILE.write_text("\n".join(["# Written by tools/lock_guest_wheels.py", *lines, ""]))


if __name__ == "__main__":
    main()

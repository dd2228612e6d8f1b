"""Running a host program to its end, with an error that shows the end of what it said."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from branchpoint_vmruntime.errors import ImageBuildError

TAIL_LINES = 12


def run_command(
    argv: Sequence[str | Path],
    *,
    purpose: str,
    hint: str = "",
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    inherit: bool = True,
) -> bytes:
    """What the program wrote to its standard output; ImageBuildError if it failed.

    `purpose` completes "could not …". `environment` is added to ours; without `inherit` it is all
    there is.
    """
    merged = dict(os.environ) if inherit else {}
    merged.update({"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"})
    merged.update(environment or {})
    try:
        done = subprocess.run(
            [str(word) for word in argv],
            env=merged,
            cwd=folder,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
    except OSError as error:
        raise ImageBuildError(f"could not {purpose}: {error}", hint=hint) from error
    if done.returncode != 0:
        raise ImageBuildError(
            f"could not {purpose}: {Path(argv[0]).name} ended with status {done.returncode}\n"
            + tail(done.stdout + b"\n" + done.stderr),
            hint=hint,
        )
    return done.stdout


def tail(output: bytes) -> str:
    r"""The last lines that say something.

    >>> tail(b"one\n\n  two\n")
    'one\n  two'
    """
    lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
    return "\n".join(lines[-TAIL_LINES:])

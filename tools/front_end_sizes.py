#!/usr/bin/env python3
"""Print how large the built front end is, as the table of docs/benchmarks.md has it."""

import gzip
from collections.abc import Sequence
from pathlib import Path

from front_end import EXTENSION, WIDGET, build


def main() -> None:
    """Build what is stale, and measure what there is."""
    build()
    scripts = sorted(EXTENSION.glob("static/*.js"))
    entries = [path for path in scripts if path.name.startswith("remoteEntry")]
    rows = {
        "the widget: the file that a kernel sends, styles in it": [WIDGET],
        "JupyterLab: remoteEntry, which tells it what there is": entries,
        "JupyterLab: all scripts that a page loads, styles in them": scripts,
        "JupyterLab: the whole extension, with settings and licences": [
            path for path in EXTENSION.rglob("[!.]*") if path.is_file()
        ],
    }
    print("| what | size | gzipped |")
    print("|---|---|---|")
    for what, paths in rows.items():
        plain, packed = _sizes(paths), _sizes(paths, packed=True)
        print(f"| {what} | {_kilobytes(plain)} | {_kilobytes(packed)} |")


def _sizes(paths: Sequence[Path], *, packed: bool = False) -> int:
    contents = (path.read_bytes() for path in paths)
    return sum(len(gzip.compress(it, 9) if packed else it) for it in contents)


def _kilobytes(size: int) -> str:
    return f"{size / 1000:.1f} kB"


if __name__ == "__main__":
    main()

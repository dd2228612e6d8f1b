"""Costs in files for other programs: one of operations, and beside it one of branches."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from branchpoint_kernel.costs_csv import BRANCHES, OPERATIONS, branches_csv, operations_csv
from branchpoint_kernel.costs_rendering import CostsTold
from branchpoint_kernel.rendering import Line, note, size
from branchpoint_vmruntime.errors import StorageError, UsageError
from branchpoint_vmruntime.lineage import Checkpoint
from branchpoint_vmruntime.storage.new_file import new_file

NAME = "costs.csv"
_ENCODING = "utf-8"
_LONGEST_HEAD = 64 << 10
# By the first columns: a kernel of another version may have written fewer, or more.
_MADE = tuple(",".join(columns[:5]) + "," for columns in (OPERATIONS, BRANCHES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A file that was written: its rows, in words, and its size."""

    path: Path
    rows: str
    bytes: int


def write_costs(
    told: CostsTold, checkpoints: Sequence[Checkpoint], target: Path, *, replaces: bool
) -> Sequence[Saved]:
    """Write `target`, or `costs.csv` in it if it is a folder, and the file of branches beside it.

    UsageError if there is a file of either name that this did not write, unless it `replaces` all.
    StorageError if it cannot be written. Not for the event loop's thread.
    """
    if target.is_dir():
        target /= NAME
    beside = target.with_name(f"{target.stem}-branches{target.suffix}")
    contents = {target: operations_csv(told.operations, checkpoints), beside: branches_csv(told)}
    _write(contents, replaces=replaces)
    done, of = len(told.operations), len(told.rows) + len(told.gone)
    rows = (
        "1 operation" if done == 1 else f"{done} operations",
        "1 branch" if of == 1 else f"{of} branches",
    )
    return [
        Saved(path=path, rows=words, bytes=len(text.encode(_ENCODING)))
        for (path, text), words in zip(contents.items(), rows, strict=True)
    ]


def saved_lines(saved: Sequence[Saved], name: Callable[[Path], str]) -> list[Line]:
    """What was written."""
    return [note("●", name(file.path), file.rows, size(file.bytes)) for file in saved]


def _write(contents: Mapping[Path, str], *, replaces: bool) -> None:
    """Write files, each whole or not at all, having seen first that each may be."""
    if not replaces:
        for path in contents:
            _require_free(path)
    try:
        for path, text in contents.items():
            _write_one(path, text)
    except OSError as error:
        raise StorageError(
            f"{error.filename or next(iter(contents))} could not be written:"
            f" {error.strerror or error}",
            hint="name a file in a folder that can be written",
        ) from error


def _require_free(path: Path) -> None:
    if not os.path.lexists(path):
        return
    with suppress(OSError, UnicodeDecodeError):
        # To open a pipe would be to wait for whoever writes into it.
        if path.is_file():
            with path.open(encoding=_ENCODING) as file:
                if file.readline(_LONGEST_HEAD).startswith(_MADE):
                    return
    raise UsageError(
        f"there is a file {str(path)!r} that %costs did not write",
        hint="name another, or replace it: --force",
    )


def _write_one(path: Path, text: str) -> None:
    with new_file(path, mode=0o666, replaces=True) as file:
        file.write(text.encode(_ENCODING))

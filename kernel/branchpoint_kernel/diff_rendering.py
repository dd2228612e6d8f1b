"""How differences look, and how they stand in a record. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from branchpoint_kernel.comparison import (
    Change,
    Comparison,
    FileChange,
    PackageChange,
    VariableChange,
)
from branchpoint_kernel.insides import Variable
from branchpoint_kernel.rendering import Line, note, size
from branchpoint_vmruntime.lineage import Cell

ROWS_SHOWN = 20
ROWS_RECORDED = 1000
_COLUMN = 48
_VALUE = 60
_WORDS = {Change.ADDED: "added", Change.CHANGED: "changed", Change.REMOVED: "removed"}


def comparison_lines(found: Comparison) -> list[Line]:
    """Files, variables and packages, each under a heading that counts them."""
    caches = _counted(found.caches, "cache") if found.caches else ""
    more = f"{found.left_out} files more were not looked at" if found.left_out else ""
    alike = [f"{found.same} the same"] if found.same else []
    alike += [f"{found.look_same} look the same"] if found.look_same else []
    return [
        *_section("files", found.files, _file_line, caches and f"and {caches}", more),
        *_section("variables", found.variables, _variable_line, ", ".join(alike)),
        *_section("packages", found.packages, _package_line),
        *(note("⚠", said) for said in found.notes),
    ]


def cells_lines(cells: Sequence[Cell]) -> list[Line]:
    """The cells that would be undone, by their first lines."""
    rows = [Line("↩", f"In[{cell.count}]", (first_line(cell.source),)) for cell in cells]
    return [note("▸", "cells", f"{len(cells)} undone" if cells else "none"), *_limited(rows)]


def comparison_record(found: Comparison) -> dict[str, Any]:
    """The same for programs; at most ROWS_RECORDED of each, `*_total` says how many there are."""
    return {
        "files": _rows(found.files, _file_record),
        "files_total": _total(found.files),
        "caches": found.caches,
        "variables": _rows(found.variables, _variable_record),
        "variables_total": _total(found.variables),
        "same": found.same,
        "look_same": found.look_same,
        "packages": _rows(found.packages, _package_record),
        "packages_total": _total(found.packages),
        "notes": list(found.notes),
    }


def printable(text: str) -> str:
    r"""Text that can be shown and stored anywhere, on one line.

    >>> printable("a\udcffb\n")
    'a\\udcffb\\n'
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def first_line(source: str) -> str:
    """The first line of a cell that says something."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    more = " …" if len(lines) > 1 else ""
    return _short(lines[0]) + more if lines else ""


def _section(title: str, changes: Sequence[Any] | None, line: Any, *facts: str) -> Iterable[Line]:
    if changes is None:
        return [note("▸", title, "not compared")]
    counts = Counter(change.change for change in changes)
    summary = [f"{counts[change]} {_WORDS[change]}" for change in Change if counts[change]]
    heading = note("▸", title, ", ".join(summary) or "no difference", *facts)
    return [heading, *_limited([line(change) for change in changes])]


def _limited(rows: list[Line]) -> list[Line]:
    if len(rows) <= ROWS_SHOWN:
        return rows
    return [*rows[:ROWS_SHOWN], note(" ", f"… and {len(rows) - ROWS_SHOWN} more")]


def _row(change: Change, name: str, *facts: str) -> Line:
    shown = printable(name)
    return Line(change.value, shown, facts, in_columns=len(shown) <= _COLUMN)


def _file_line(found: FileChange) -> Line:
    return _row(found.change, found.path, _sizes(found.before, found.after))


def _variable_line(found: VariableChange) -> Line:
    old, new = found.before, found.after
    here = new or old
    assert here is not None
    kind = _plain_type(here)
    if old is not None and new is not None and old.type != new.type:
        kind += f", was {_plain_type(old)}"
    sizes = _sizes(old and old.size, new and new.size)
    return _row(found.change, found.name, kind, sizes, _short(here.repr))


def _package_line(found: PackageChange) -> Line:
    was = f", was {found.before}" if found.before and found.after else ""
    version = f"{found.after or found.before}{was}"
    return _row(found.change, found.name, printable(version), found.kind)


def _sizes(before: int | None, after: int | None) -> str:
    if before is None or after is None:
        known = before if after is None else after
        return "" if known is None else _bytes(known)
    return _bytes(after) + (f", was {_bytes(before)}" if _bytes(before) != _bytes(after) else "")


def _bytes(count: int) -> str:
    return f"{count} bytes" if count < 1000 else size(count)


def _plain_type(variable: Variable) -> str:
    return printable(variable.type.removeprefix("builtins."))


def _short(text: str) -> str:
    shown = printable(" ".join(text.split()))
    return shown if len(shown) <= _VALUE else f"{shown[: _VALUE - 1]}…"


def _counted(count: int, word: str) -> str:
    return f"1 {word}" if count == 1 else f"{count} {word}s"


def _total(changes: Sequence[Any] | None) -> int | None:
    return None if changes is None else len(changes)


def _rows(changes: Sequence[Any] | None, record: Any) -> list[dict[str, Any]] | None:
    return None if changes is None else [record(change) for change in changes[:ROWS_RECORDED]]


def _file_record(found: FileChange) -> dict[str, Any]:
    return {
        "path": printable(found.path),
        "change": _WORDS[found.change],
        "before_bytes": found.before,
        "after_bytes": found.after,
    }


def _variable_record(found: VariableChange) -> dict[str, Any]:
    return {
        "name": found.name,
        "change": _WORDS[found.change],
        "before": _value_record(found.before),
        "after": _value_record(found.after),
    }


def _value_record(variable: Variable | None) -> dict[str, Any] | None:
    return variable and {
        "type": variable.type,
        "size_bytes": variable.size,
        "repr": printable(variable.repr),
    }


def _package_record(found: PackageChange) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "name": found.name,
        "change": _WORDS[found.change],
        "before": found.before,
        "after": found.after,
    }

"""What an executed notebook says of itself: the records of its magics and what each cost. Pure."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

RECORD_TYPE = "application/vnd.branchpoint+json"
HEADINGS = ("cell", "operation", "of", "took", "paused", "new data", "own", "shared")
LEGEND = "own: memory of this machine alone; shared: mapped from files others use too"
_CSV_COLUMNS = (
    "cell",
    "operation",
    "subject",
    "total_ms",
    "paused_ms",
    "new_bytes",
    "own_bytes",
    "shared_bytes",
)
_COSTLESS = frozenset({"branches", "checkpoints"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record as a cell left it."""

    cell: str
    op: str
    session: str
    branch: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """One line of the cost table; what was not measured is None."""

    cell: str
    op: str
    subject: str
    total_ms: float | None = None
    paused_ms: float | None = None
    new_bytes: int | None = None
    own_bytes: int | None = None
    shared_bytes: int | None = None
    phases_ms: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Failure:
    """What a cell failed with; one line for each branch it failed in."""

    cell: str
    message: str


def records(notebook: Mapping[str, Any]) -> list[Record]:
    """Every record in the outputs of a notebook, in the order of its cells."""
    return [
        Record(
            cell=cell,
            op=str(content["op"]),
            session=str(content["session"]),
            branch=str(content["branch"]),
            content=content,
        )
        for cell, output in _outputs(notebook)
        if (content := _content(output))
    ]


def failure(notebook: Mapping[str, Any]) -> Failure | None:
    """The first failure in the outputs of a notebook."""
    for cell, output in _outputs(notebook):
        if output["output_type"] == "error":
            return Failure(cell, f"{output['ename']}: {output['evalue']}")
        failed = [run for run in _runs(_content(output)) if run.get("failure")]
        if failed:
            lines = (f"in branch {run['name']}: {run['failure']}" for run in failed)
            return Failure(cell, "\n".join(lines))
    return None


def cost_rows(found: Sequence[Record]) -> list[CostRow]:
    """What each operation cost: a row for it, and one for every machine it woke."""
    return [row for record in found if record.op not in _COSTLESS for row in _rows_of(record)]


def cells_of(row: CostRow) -> tuple[str, ...]:
    """A row as people read it, under `HEADINGS`."""
    return (
        row.cell,
        row.op,
        row.subject,
        _milliseconds(row.total_ms),
        _milliseconds(row.paused_ms),
        _size(row.new_bytes),
        _size(row.own_bytes),
        _size(row.shared_bytes),
    )


def as_csv(rows: Sequence[CostRow]) -> str:
    """The rows with plain numbers; a column for each phase that occurs."""
    phases = tuple(dict.fromkeys(name for row in rows for name in row.phases_ms))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_CSV_COLUMNS, *(f"{name}_ms" for name in phases)])
    for row in rows:
        numbers = (row.total_ms, row.paused_ms, row.new_bytes, row.own_bytes, row.shared_bytes)
        parts = [row.phases_ms.get(name) for name in phases]
        writer.writerow([row.cell, row.op, row.subject, *map(_plain, [*numbers, *parts])])
    return text.getvalue()


def as_markdown(rows: Sequence[CostRow]) -> str:
    """The rows as a Markdown table."""
    lines = [HEADINGS, ("---", "---", "---", "---:", "---:", "---:", "---:", "---:")]
    lines += [tuple(cell.replace("|", "\\|") for cell in cells_of(row)) for row in rows]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"{table}\n{LEGEND}\n"


def _outputs(notebook: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, cell in enumerate(notebook["cells"], start=1):
        for output in cell.get("outputs", ()):
            yield str(cell.get("id") or number), output


def _content(output: Mapping[str, Any]) -> dict[str, Any]:
    return _mapping(_mapping(output.get("data")).get(RECORD_TYPE))


def _runs(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(content.get("runs") or ())


def _rows_of(record: Record) -> Iterator[CostRow]:
    content = record.content
    saved = _mapping(content.get("checkpoint"))
    is_save = record.op == "checkpoint"
    memory = _mapping(content.get("memory"))
    sizes = [saved[name] for name in ("memory_bytes", "disk_bytes") if name in saved]
    yield CostRow(
        cell=record.cell,
        op=record.op,
        subject=str(saved.get("label") or record.branch),
        total_ms=content.get("total_ms"),
        paused_ms=saved.get("paused_ms") if is_save else None,
        new_bytes=sum(sizes) if is_save and sizes else None,
        own_bytes=memory.get("own"),
        shared_bytes=memory.get("shared"),
        phases_ms=_mapping(content.get("phases_ms")),
    )
    branches: list[dict[str, Any]] = list(content.get("branches") or ())
    for run in _runs(content):
        name, took_ms = run["name"], run["elapsed_ms"]
        yield CostRow(cell=record.cell, op="run", subject=name, total_ms=took_ms)
    memories = {each["name"]: _mapping(each.get("memory")) for each in branches}
    for name, awake_ms in _mapping(content.get("awake_ms")).items():
        woken = memories.get(name, {})
        yield CostRow(
            cell=record.cell,
            op="awake",
            subject=name,
            total_ms=awake_ms,
            own_bytes=woken.get("own"),
            shared_bytes=woken.get("shared"),
        )


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _plain(number: float | None) -> str:
    if number is None:
        return ""
    return str(number) if isinstance(number, int) else f"{number:.3f}"


def _milliseconds(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number / 1000:.2f} s" if number >= 1000 else f"{number:.0f} ms"


def _size(count: int | None) -> str:
    if count is None:
        return ""
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1e7 else f"{count / 1e6:.1f} MB"

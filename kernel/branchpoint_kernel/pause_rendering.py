"""How pausing and resuming look. Pure."""

from branchpoint_kernel.rendering import Line, duration, note, size
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointKind
from branchpoint_vmruntime.reports import PauseReport, ResumeReport

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


def pause_lines(report: PauseReport, *, is_current: bool) -> list[Line]:
    """What `%pause` shows."""
    name = report.branch.name
    freed = f"{size(report.freed_bytes)} given back" if report.freed_bytes else ""
    resumed_by = "the next cell resumes it" if is_current else f"%%branch {name} resumes it"
    return [note("‖", f"{name} paused in {duration(report.total_ms)}", freed, resumed_by)]


def resume_lines(report: ResumeReport) -> list[Line]:
    """What `%resume` shows, and a cell that a paused branch was resumed for."""
    name, point = report.branch.name, report.checkpoint
    if point.kind is CheckpointKind.PAUSED:
        since = f"paused {away(report.away_s)}"
    else:
        since = f"as it was at {point.label}, {away(report.away_s)} ago"
    lost = f"what it did after {point.label} is lost" if report.lost else ""
    return [note("▶", f"{name} resumed in {in_seconds(report.total_ms)}, {since}", lost)]


def pause_record(report: PauseReport) -> dict[str, object]:
    """What a record says of a pause."""
    return {"paused": report.branch.name, "freed_bytes": report.freed_bytes}


def resume_record(report: ResumeReport) -> dict[str, object]:
    """What a record says of a resumption."""
    return {"resumed": report.branch.name, "away_s": round(report.away_s, 3)}


def in_seconds(milliseconds: float) -> str:
    """A wait that a person notices, in seconds.

    >>> in_seconds(212.4)
    '0.21 s'
    """
    return f"{milliseconds / 1000:.2f} s"


def away(seconds: float) -> str:
    """How long ago, in the two largest units.

    >>> away(4.2), away(75), away(11530), away(700000)
    ('4 s', '1 min 15 s', '3 h 12 min', '8 d 2 h')
    """
    whole = int(seconds)
    for unit, length, part, divisor in (
        ("d", _DAY_S, "h", _HOUR_S),
        ("h", _HOUR_S, "min", _MINUTE_S),
        ("min", _MINUTE_S, "s", 1),
    ):
        if whole >= length:
            rest = whole % length // divisor
            return f"{whole // length} {unit}" + (f" {rest} {part}" if rest else "")
    return f"{whole} s"


def at(checkpoint: Checkpoint) -> str:
    """A checkpoint as a place to go back to."""
    return f"{checkpoint.label} ({checkpoint.created_at.astimezone():%d %b %H:%M})"

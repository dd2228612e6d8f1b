"""How `%image` looks, to people and to programs. Pure."""

from typing import Any

from branchpoint_kernel.records import checkpoint_record
from branchpoint_kernel.rendering import Line, duration, note, size
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointKind
from branchpoint_vmruntime.start_image import BakeReport, Start


def start_lines(start: Start) -> list[Line]:
    """Where fresh machines start, and what was baked on the way there."""
    named = start.checkpoint.label
    if start.checkpoint.kind is CheckpointKind.BASE:
        how = "%image add PACKAGE bakes packages into it"
        return [note("●", f"fresh machines start from the {named}", how)]
    if start.refused:
        return [
            note("⚠", f"fresh machines start from the base, and not from {named}", start.refused),
            note("▸", "%image add bakes it anew upon the image of now", "%image reset gives it up"),
        ]
    if start.failed:
        return [
            note("⚠", f"this machine started from the base, and not from {named}", start.failed),
            note("▸", "a restart of the kernel tries that again", "%image reset gives it up"),
        ]
    baked = [point for point in start.chain if point.kind is not CheckpointKind.BASE]
    lines = [note("●", f"fresh machines start from {named}", "%image reset goes back to the base")]
    return lines + [note("▸", f"{point.label}: {point.note}", _when(point)) for point in baked]


def baked_lines(report: BakeReport) -> list[Line]:
    """What `%image add` shows."""
    point = report.checkpoint
    took = f"baked in {duration(report.total_ms)}"
    kept = f"{size(point.cost.stored_bytes)} kept"
    lines = [note("▸", line) for line in report.output.splitlines()]
    lines.append(note("●", f"fresh machines start from {point.label}", took, kept))
    lines.append(note("▸", f"with {', '.join(report.packages) or point.note}", "after a restart"))
    if report.left_out:
        left = ", ".join(report.left_out)
        lines.append(note("⚠", f"left out, since no index has them: {left}"))
    return lines


def start_record(start: Start) -> dict[str, Any]:
    """Where fresh machines start, in a record."""
    return {
        "start": checkpoint_record(start.checkpoint),
        "baked": [
            {"label": point.label, "packages": point.note}
            for point in start.chain
            if point.kind is not CheckpointKind.BASE
        ],
        "refused": start.refused,
        "failed": start.failed,
    }


def _when(point: Checkpoint) -> str:
    return f"{point.created_at.astimezone():%d %b %H:%M}"

"""What is displayed of something done: lines for people in two forms, a record for programs."""

from collections.abc import Mapping, Sequence
from typing import Any

from branchpoint_kernel.pause_rendering import resume_lines, resume_record
from branchpoint_kernel.records import RECORD_TYPE, Fact, record
from branchpoint_kernel.rendering import Line, as_html, as_text, came_back_lines, notice_lines
from branchpoint_vmruntime.reports import ResumeReport
from branchpoint_vmruntime.session import Session

Bundle = Mapping[str, Any]


def bundle(session: Session, fact: Fact, lines: Sequence[Line]) -> Bundle:
    """Lines and the record of an operation, by their MIME types.

    First, once, which branches are here again that notebooks were to continue; last, once, what was
    done by itself.
    """
    first, last = came_back_lines(session.came_back), notice_lines(session.notices)
    session.came_back.clear()
    session.notices.clear()
    return {**plain([*first, *lines, *last]), RECORD_TYPE: record(session, fact)}


def plain(lines: Sequence[Line]) -> Bundle:
    """Lines alone, by their MIME types."""
    return {"text/plain": as_text(lines), "text/html": as_html(lines)}


def resumption(session: Session, report: ResumeReport) -> Bundle:
    """What a cell shows of a branch that was resumed for it."""
    more = resume_record(report)
    fact = Fact("resume", report.checkpoint, report.phases_ms, report.total_ms, more)
    return bundle(session, fact, resume_lines(report))

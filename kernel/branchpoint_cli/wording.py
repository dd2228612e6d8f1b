"""What the owner of a session answered, in lines for people. Pure."""

from branchpoint_kernel.rendering import Line, duration, note, size
from branchpoint_vmruntime.control_facts import (
    BranchFacts,
    CheckpointFacts,
    ForkFacts,
    PauseFacts,
    ResumeFacts,
    RollbackFacts,
)


def checkpoint_line(made: CheckpointFacts) -> Line:
    """A checkpoint that was just taken."""
    return Line(
        "●",
        name_of(made),
        (
            f"guest paused {duration(made.paused_ms)}",
            f"{size(made.stored_bytes)} new",
            f"image {size(made.shared_bytes)} shared" if made.shared_bytes else "",
            "pinned" if made.pinned else "",
        ),
    )


def fork_lines(report: ForkFacts) -> list[Line]:
    """Those that came up and those that did not."""
    marks = ["├─"] * (len(report.branches) + len(report.failures) - 1) + ["└─"]
    told = [(b.name, (f"awake {duration(b.awake_ms)}", memory(b))) for b in report.branches]
    told += [(f.name, ("did not come up", f"{f.message}; {f.hint}")) for f in report.failures]
    return [Line(mark, name, facts) for mark, (name, facts) in zip(marks, told, strict=True)]


def rollback_lines(report: RollbackFacts) -> list[Line]:
    """Where a branch is now, and how to get back."""
    took = f"in {duration(report.total_ms)}"
    if report.safety is not None:
        safety = f"what was left is saved: branchpoint rollback {name_of(report.safety)}"
    else:
        safety = f"safety checkpoint {report.safety_note}"
    return [
        note("●", f"{report.branch.name} is back at {name_of(report.checkpoint)} {took}", safety)
    ]


def switch_line(branch: BranchFacts) -> Line:
    """Which branch is the current one now."""
    return note("●", f"the session continues as {branch.name}", memory(branch))


def pause_line(report: PauseFacts) -> Line:
    """What was given back, and what carries the branch on."""
    return note(
        "‖",
        f"{report.branch.name} is paused at {name_of(report.checkpoint)}",
        f"{size(report.freed_bytes)} of memory free",
        f"took {duration(report.total_ms)}",
    )


def resume_line(report: ResumeFacts) -> Line:
    """From where it carries on, and what it took."""
    since = name_of(report.checkpoint)
    does = "begins" if report.away_s == 0 else "carries on"
    return note(
        "▶",
        f"{report.branch.name} {does} from {since}",
        f"awake in {duration(report.total_ms)}",
        f"it was away {span(report.away_s)}" if report.away_s > 0 else "",
        f"what it did after {since} is lost" if report.lost else "",
        memory(report.branch),
    )


def memory(branch: BranchFacts) -> str:
    """Own and shared memory of its machine, never added up."""
    if branch.own_bytes is None or branch.shared_bytes is None:
        return ""
    return f"{size(branch.own_bytes)} own, {size(branch.shared_bytes)} shared"


def name_of(checkpoint: CheckpointFacts) -> str:
    """What a checkpoint is called."""
    return checkpoint.label or checkpoint.id


def span(seconds: float) -> str:
    """How long something has lasted, to two parts.

    >>> span(7), span(190), span(11_520), span(180_000)
    ('7 s', '3 min 10 s', '3 h 12 min', '2 d 2 h')
    """
    parts = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    rest, words = max(0, int(seconds)), list[str]()
    for unit, length in parts:
        count, rest = divmod(rest, length)
        if count or words:
            words.append(f"{count} {unit}" if count else "")
        if len(words) == 2:
            break
    return " ".join(filter(None, words)) or "0 s"

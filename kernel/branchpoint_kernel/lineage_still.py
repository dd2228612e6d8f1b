"""The lineage for who has no widget: a picture drawn once, and tables that can be read out.

Saved notebooks, nbconvert, GitHub and screen readers get these.
"""

import importlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import PurePath

from branchpoint_kernel.bundles import Bundle
from branchpoint_kernel.drawing import Picture, in_turn
from branchpoint_kernel.records import RECORD_TYPE, Fact, record
from branchpoint_kernel.rendering import duration, memory_facts, size
from branchpoint_kernel.tables import table
from branchpoint_vmruntime.branch_seam import MemoryUse
from branchpoint_vmruntime.control_facts import to_json
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.lineage_view import BranchView, CheckpointView, LineageView
from branchpoint_vmruntime.outside.amounts import money_text
from branchpoint_vmruntime.session import Session
from branchpoint_vmruntime.viewing import view_of

# By this a page that shows the widget finds what it may hide.
TABLE_CLASS = "branchpoint-lineage-table"
CHECKPOINTS_HEAD = ("checkpoint", "kind", "branch", "saved", "after", "paused", "new", "shared", "")
BRANCHES_HEAD = ("branch", "state", "at", "memory", "lived", "requests", "tokens", "money")
_NUMBERS = frozenset({"paused", "new", "shared", "lived", "requests", "tokens", "money"})
_CELL = "padding:.1em .6em;text-align:"
_CSS_DPI = 96
# A picture of hundreds of rows, drawn as finely as a small one, is megabytes in every notebook.
_FINE_DPI, _COARSE_DPI = 150, 72
_LONG_IN = 20


@dataclass(frozen=True, slots=True)
class _Table:
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def right(self) -> frozenset[int]:
        """The columns of numbers."""
        return frozenset(at for at, name in enumerate(self.head) if name in _NUMBERS)

    def text(self) -> str:
        """As plain text, columns aligned."""
        rows = "\n".join(line.name for line in table(self.head, self.rows, self.right))
        return f"{self.caption}\n{rows}"

    def html(self) -> str:
        """As HTML: headers that say what they head, so that it can be read out."""
        head = "".join(
            f'<th scope="col" style="{self._style(at)}">{escape(name) or "note"}</th>'
            for at, name in enumerate(self.head)
        )
        body = "".join(f"<tr>{self._row(row)}</tr>" for row in self.rows)
        caption = f'<caption style="text-align:left">{escape(self.caption)}</caption>'
        head = f"<thead><tr>{head}</tr></thead>"
        return f'<table class="{TABLE_CLASS}">{caption}{head}<tbody>{body}</tbody></table>'

    def _row(self, row: Sequence[str]) -> str:
        first = f'<th scope="row" style="{self._style(0)}">{escape(row[0])}</th>'
        rest = (
            f'<td style="{self._style(at)}">{escape(cell)}</td>'
            for at, cell in enumerate(row[1:], start=1)
        )
        return first + "".join(rest)

    def _style(self, column: int) -> str:
        return _CELL + ("right" if column in self.right else "left")


def summary(view: LineageView) -> str:
    """A lineage in one line.

    >>> summary(LineageView(version=1, session="s", key="/home/me/a.ipynb", created_at=None,
    ...     owner=None, current="main", checkpoints=(), branches=()))
    'Lineage of a.ipynb: 0 checkpoints, 0 branches, this notebook is on main'
    """
    branches = sum(it.facts.state is not BranchState.DROPPED for it in view.branches)
    counted = [
        f"{count} {word if count == 1 else plural}"
        for count, word, plural in (
            (len(view.checkpoints), "checkpoint", "checkpoints"),
            (branches, "branch", "branches"),
        )
    ]
    here = f"this notebook is on {view.current}" if view.current else "no notebook is on it"
    return f"Lineage of {PurePath(view.key).name}: {', '.join(counted)}, {here}"


def tables(view: LineageView) -> Bundle:
    """The whole lineage as two tables."""
    shown = [_checkpoints(view), _branches(view)]
    return {
        "text/plain": "\n\n".join(each.text() for each in shown),
        "text/html": "".join(each.html() for each in shown),
    }


async def lineage_bundle(session: Session) -> Bundle:
    """The whole lineage as two tables, and as it is shown for programs."""
    view = await view_of(session)
    # What was done in passing is in `%costs`, and would be most of what a notebook keeps.
    shown = to_json(replace(view, operations=(), under_way=()))
    return {**tables(view), RECORD_TYPE: record(session, Fact("lineage", more={"lineage": shown}))}


async def picture(session: Session, view: LineageView) -> Picture:
    """The lineage drawn, as SVG and as PNG; in words for who cannot see it."""
    checkpoints, operations = session.checkpoints(), session.operations()
    records = [branch.record for branch in session.branches()]
    current = session.current.name

    def drawn() -> Picture:
        # It takes most of a second to import, and few kernels are ever asked.
        pictures = importlib.import_module("branchpoint_vmruntime.lineage.picture")
        figure = pictures.draw(checkpoints, records, operations, current=current)
        width_in, height_in = figure.get_size_inches()
        dpi = _FINE_DPI if max(width_in, height_in) < _LONG_IN else _COARSE_DPI
        said = summary(view)
        data = {
            "text/plain": f"({said}: a picture)",
            "image/svg+xml": _told_svg(pictures.svg(figure).decode(), said, _description(view)),
            "image/png": b64encode(pictures.png(figure, most_dpi=dpi)).decode(),
        }
        return Picture(data, {"image/png": {"width": round(width_in * _CSS_DPI), "alt": said}})

    return await in_turn(drawn, "the picture")


def _told_svg(svg: str, title: str, description: str) -> str:
    """A picture as a part of pages, with words for who cannot see it."""
    inner = svg[svg.index("<svg") :]
    end = inner.index(">")
    words = f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
    return f'{inner[:end]} role="img" style="max-width:100%;height:auto">{words}{inner[end + 1 :]}'


def _description(view: LineageView) -> str:
    branches = (
        f"{it.facts.name} is {it.facts.state}{', this notebook' if it.facts.current else ''}, "
        f"at {it.facts.head_label or it.facts.head}"
        for it in view.branches
    )
    return f"A tree of checkpoints, the oldest at the top. {'; '.join(branches)}."


def _checkpoints(view: LineageView) -> _Table:
    rows = [_checkpoint(it) for it in view.checkpoints]
    return _Table(summary(view), CHECKPOINTS_HEAD, rows)


def _checkpoint(it: CheckpointView) -> Sequence[str]:
    facts = it.facts
    return (
        facts.label or facts.id[:8],
        facts.kind.value,
        facts.branch,
        f"{facts.created_at.astimezone():%Y-%m-%d %H:%M:%S}",
        f"In[{it.count}]" if it.count else "",
        duration(facts.paused_ms) if facts.paused_ms else "",
        size(facts.stored_bytes),
        size(facts.shared_bytes) if facts.shared_bytes else "",
        " · ".join(filter(None, ("pinned" if facts.pinned else "", facts.note))),
    )


def _branches(view: LineageView) -> _Table:
    rows = [_branch(it, view.currency) for it in view.branches]
    return _Table("Branches", BRANCHES_HEAD, rows)


def _branch(it: BranchView, currency: str) -> Sequence[str]:
    facts = it.facts
    memory = None
    if facts.own_bytes is not None and facts.shared_bytes is not None:
        memory = MemoryUse(own_bytes=facts.own_bytes, shared_bytes=facts.shared_bytes)
    here = ", this notebook" if facts.current else ""
    lent = f" to {it.lent_to}" if it.lent_to else ""
    tokens = it.tokens_in + it.tokens_out
    return (
        facts.name,
        f"{facts.state.value}{lent}{here}",
        facts.head_label or facts.head[:8],
        memory_facts(memory),
        duration(it.lived_s * 1000) if it.lived_s else "",
        str(it.requests) if it.requests else "",
        str(tokens) if tokens else "",
        money_text(it.micros, currency) if it.micros else "",
    )

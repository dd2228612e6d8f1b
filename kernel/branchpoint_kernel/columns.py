"""What a cell gave in each of several branches, side by side or one under another. Pure."""

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from branchpoint_kernel.output_bounds import (
    MOST_PRINTED,
    MOST_SHOWN,
    Gap,
    Output,
    Shown,
    size_shown,
    without_middle,
    without_oldest,
)
from branchpoint_kernel.printed import Printed, as_on_a_terminal
from branchpoint_kernel.publisher import error_content
from branchpoint_kernel.rendering import duration
from branchpoint_vmruntime.errors import BranchpointError

_PRE = "margin:0;white-space:pre-wrap;font-family:var(--jp-code-font-family,monospace)"
_COLUMN = "flex:1 1 18em;min-width:0;border-left:3px solid {color};padding:0 .8em;overflow-x:auto"
_UNDER_WAY = {"running": " · running", "waiting": " · waits for the cell that runs there"}
_COLORS = {"running": "#999", "ok": "#2a7", "error": "#c33"}


@dataclass
class Column:
    """One branch's side: what is printed, and displays and errors as the protocol has them.

    It keeps within bounds, and says what it has left out.
    """

    name: str
    status: str = "running"
    elapsed_ms: float | None = None
    failure: str = ""
    outputs: list[Output] = field(default_factory=list[Output])
    _printed: int = 0
    _shown: int = 0

    def add(self, kind: str, content: dict[str, Any]) -> None:
        """Take in one output message."""
        match kind:
            case "stream":
                self._add_text(content)
            case "clear_output":
                self.outputs, self._printed, self._shown = [], 0, 0
            case "update_display_data":
                self._update(content)
            case "display_data" | "execute_result" | "error":
                self._show({"kind": kind, **content})
            case _:
                pass

    def fail(self, error: BranchpointError) -> None:
        """The branch has no machine to run the cell in, or none any more."""
        self.status = "error"
        self.failure = str(error)
        self.add("error", error_content(error))

    def record(self) -> dict[str, Any]:
        """What a program wants to know of it."""
        return {
            "name": self.name,
            "status": self.status,
            "elapsed_ms": self.elapsed_ms,
            "failure": self.failure or None,
        }

    def _add_text(self, content: dict[str, Any]) -> None:
        last = self.outputs[-1] if self.outputs else None
        name = str(content.get("name"))
        if not isinstance(last, Printed) or last.name != name:
            last = Printed(name)
            self.outputs.append(last)
            self._printed += last.size
        self._printed -= last.size
        last.add(str(content.get("text") or ""))
        self._printed += last.size
        if self._printed > MOST_PRINTED:
            self.outputs = without_middle(self.outputs)
            self._printed = sum(it.size for it in self.outputs if isinstance(it, Printed))

    def _show(self, shown: Shown) -> None:
        self.outputs.append(shown)
        self._shown += size_shown(shown)
        self._bound_shown()

    def _update(self, content: dict[str, Any]) -> None:
        wanted = _display_id(content)
        for output in self.outputs:
            if isinstance(output, dict) and _display_id(output) == wanted:
                self._shown -= size_shown(output)
                output["data"] = content.get("data")
                self._shown += size_shown(output)
        self._bound_shown()

    def _bound_shown(self) -> None:
        if self._shown > MOST_SHOWN:
            self.outputs = without_oldest(self.outputs)
            self._shown = sum(size_shown(it) for it in self.outputs if isinstance(it, dict))


def as_data(columns: Sequence[Column]) -> dict[str, str]:
    """What is displayed of them, by MIME type."""
    return {"text/plain": as_text(columns), "text/html": as_html(columns)}


def as_text(columns: Sequence[Column]) -> str:
    """One under another, a heading for each."""
    blocks = [f"── {_heading(column)} ──\n{output_text(column)}".rstrip() for column in columns]
    return "\n\n".join(blocks)


def as_html(columns: Sequence[Column]) -> str:
    """Side by side as far as there is room."""
    cells = "".join(_column_html(column) for column in columns)
    return f'<div style="display:flex;flex-wrap:wrap;gap:.8em">{cells}</div>'


def output_text(column: Column) -> str:
    """What a branch gave, as plain text."""
    return "\n".join(text for output in column.outputs if (text := _output_text(output)))


def printed_text(column: Column) -> str:
    """The same without what went wrong."""
    shown = [it for it in column.outputs if not isinstance(it, dict) or it["kind"] != "error"]
    return "\n".join(text for output in shown if (text := _output_text(output)))


def _heading(column: Column) -> str:
    took = "" if column.elapsed_ms is None else f" · {duration(column.elapsed_ms)}"
    failed = f" · {column.failure}" if column.failure else ""
    return f"{column.name}{took}{failed}{_UNDER_WAY.get(column.status, '')}"


def _display_id(shown: Shown) -> object:
    transient: dict[str, Any] = shown.get("transient") or {}
    return transient.get("display_id")


def _data_of(shown: Shown) -> dict[str, Any]:
    return shown.get("data") or {}


def _output_text(output: Output) -> str:
    match output:
        case Printed():
            return output.text.rstrip("\n")
        case Gap():
            return output.words
        case {"kind": "error"}:
            # It is null where an exception says that it has nothing to show.
            return as_on_a_terminal("\n".join(map(str, output.get("traceback") or ())))
        case _:
            return str(_data_of(output).get("text/plain", ""))


def _column_html(column: Column) -> str:
    style = _COLUMN.format(color=_COLORS.get(column.status, "#999"))
    body = "".join(_output_html(output) for output in column.outputs)
    return f'<div style="{style}"><b>{escape(_heading(column))}</b>{body}</div>'


def _output_html(output: Output) -> str:
    data = _data_of(output) if isinstance(output, dict) else {}
    if svg := data.get("image/svg+xml"):
        source = b64encode(str(svg).encode()).decode()
        return f'<img src="data:image/svg+xml;base64,{source}" style="max-width:100%">'
    for kind in ("image/png", "image/jpeg"):
        if image := data.get(kind):
            source = re.sub(r"\s", "", str(image))
            return f'<img src="data:{kind};base64,{source}" style="max-width:100%">'
    if html := data.get("text/html"):
        return f"<div>{html}</div>"
    return f'<pre style="{_PRE}">{escape(_output_text(output))}</pre>'

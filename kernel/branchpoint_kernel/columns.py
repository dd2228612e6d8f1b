"""What a cell gave in each of several branches, side by side or one under another. Pure."""

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from branchpoint_kernel.publisher import error_content
from branchpoint_kernel.rendering import duration
from branchpoint_vmruntime.errors import BranchpointError

# Each begins where only one try can be made, or ends at the next beginning: what is printed may be
# one line of many MB, and the whole kernel waits for this.
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)")
_OVERWRITTEN = re.compile(r"^[^\n]*\r(?!\n)", re.MULTILINE)
_PRE = "margin:0;white-space:pre-wrap;font-family:var(--jp-code-font-family,monospace)"
_COLUMN = "flex:1 1 18em;min-width:0;border-left:3px solid {color};padding:0 .8em;overflow-x:auto"
_UNDER_WAY = {"running": " · running", "waiting": " · waits for the cell that runs there"}
_COLORS = {"running": "#999", "ok": "#2a7", "error": "#c33"}


@dataclass
class Column:
    """One branch's side: outputs as the protocol has them, `stream`, `display_data` and `error`."""

    name: str
    status: str = "running"
    elapsed_ms: float | None = None
    failure: str = ""
    outputs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def add(self, kind: str, content: dict[str, Any]) -> None:
        """Take in one output message."""
        match kind:
            case "stream":
                self._add_text(content)
            case "clear_output":
                self.outputs.clear()
            case "update_display_data":
                self._update(content)
            case "display_data" | "execute_result" | "error":
                self.outputs.append({"kind": kind, **content})
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
        last = self.outputs[-1] if self.outputs else {}
        if last.get("kind") == "stream" and last["name"] == content["name"]:
            last["text"] += content["text"]
        else:
            self.outputs.append({"kind": "stream", **content})

    def _update(self, content: dict[str, Any]) -> None:
        wanted = content.get("transient", {}).get("display_id")
        for output in self.outputs:
            if output.get("transient", {}).get("display_id") == wanted:
                output["data"] = content["data"]


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
    shown = [output for output in column.outputs if output["kind"] != "error"]
    return "\n".join(text for output in shown if (text := _output_text(output)))


def plain(text: str) -> str:
    r"""Without colours, and with carriage returns carried out.

    >>> plain("\x1b[31m10%\r50%\x1b[0m\n")
    '50%\n'
    """
    return _OVERWRITTEN.sub("", _ANSI.sub("", text))


def _heading(column: Column) -> str:
    took = "" if column.elapsed_ms is None else f" · {duration(column.elapsed_ms)}"
    failed = f" · {column.failure}" if column.failure else ""
    return f"{column.name}{took}{failed}{_UNDER_WAY.get(column.status, '')}"


def _output_text(output: dict[str, Any]) -> str:
    match output["kind"]:
        case "stream":
            return plain(output["text"]).rstrip("\n")
        case "error":
            return plain("\n".join(output["traceback"]))
        case _:
            return str(output["data"].get("text/plain", ""))


def _column_html(column: Column) -> str:
    style = _COLUMN.format(color=_COLORS.get(column.status, "#999"))
    body = "".join(_output_html(output) for output in column.outputs)
    return f'<div style="{style}"><b>{escape(_heading(column))}</b>{body}</div>'


def _output_html(output: dict[str, Any]) -> str:
    data: dict[str, Any] = output.get("data", {})
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

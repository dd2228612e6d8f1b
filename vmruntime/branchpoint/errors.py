"""What can be raised."""

import sys
import traceback
from pathlib import Path
from typing import Any

_OURS = str(Path(__file__).parent)


class BranchpointError(Exception):
    """What was asked for could not be done. `hint` says what to do about it, if anything.

    `kind` is what the host calls the error, such as "UsageError".
    """

    def __init__(self, message: str, *, hint: str = "", kind: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        self.kind = kind
        if hint:
            self.add_note(f"Hint: {hint}")

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of it: where in the person's own code, and the words."""
        frames = [
            frame
            for frame in traceback.extract_tb(self.__traceback__)
            if not frame.filename.startswith(_OURS) and "/IPython/" not in frame.filename
        ]
        places = [f"{_place(frame)}\n    {frame.line}" for frame in frames]
        return [*places, f"{self.kind or type(self).__name__}: {self}", *self._notes()]

    def _notes(self) -> list[str]:
        return list(getattr(self, "__notes__", ()))


class CellEnded(BaseException):
    """Ends a cell that the machine was woken in the middle of: another cell carries on from there.

    Not an Exception: code that handles what goes wrong is not to take it for that.
    """

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of it."""
        return []


def outside() -> BranchpointError:
    """The error of every call where there is no machine around this process."""
    return BranchpointError(
        "this process does not run in a branchpoint machine",
        hint="choose the kernel Python 3 (microVM) for this notebook",
        kind="UsageError",
    )


def _place(frame: traceback.FrameSummary) -> str:
    """Where a frame is, a cell by its number, as IPython says it."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    cell = shell and shell.compile.format_code_name(frame.filename)
    where = " ".join(cell) if cell else f'File "{frame.filename}"'
    return f"{where}, line {frame.lineno}, in {frame.name}"

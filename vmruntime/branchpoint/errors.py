"""What can be raised."""


class BranchpointError(Exception):
    """What was asked for could not be done. `hint` says what to do about it, if anything.

    `kind` is what the host calls the error, such as "UsageError".
    """

    def __init__(self, message: str, *, hint: str = "", kind: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        self.kind = kind
        if hint:
            self.add_note(hint)


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

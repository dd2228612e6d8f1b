"""What a program in a machine is told when something does not go through. Pure."""

from dataclasses import dataclass

from branchpoint_vmruntime.errors import (
    BranchpointError,
    BudgetError,
    OutsideError,
    RefusedError,
    UsageError,
)
from branchpoint_vmruntime.outside.injection import Headers

TEXT = b"text/plain; charset=utf-8"
_LONGEST_REASON = 160


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole reply. Clients of a tunnel show no more than its status line."""

    status: int
    words: str
    hint: str = ""
    refused: bool = False

    @property
    def reason(self) -> bytes:
        """The words as a status line takes them, and what to do if there is room."""
        told = f"{self.words}; to allow it: {self.hint}" if self._is_allowable else self.words
        if len(told) > _LONGEST_REASON:
            told = self.words
        plain = "".join(mark if " " <= mark <= "~" else "?" for mark in told)
        return plain[:_LONGEST_REASON].encode()

    @property
    def headers(self) -> Headers:
        """The headers but for those of the body."""
        return ((b"Branchpoint-Refused", b"1"),) if self.refused else ()

    @property
    def body(self) -> bytes:
        """The words, and what to do."""
        if self._is_allowable:
            hint = f"To allow it, run this in a cell of the notebook:\n    {self.hint}\n"
        else:
            hint = f"{self.hint}\n" if self.hint else ""
        return f"branchpoint: {self.words}\n{hint}".encode()

    @property
    def _is_allowable(self) -> bool:
        return self.refused and self.hint.startswith("%")


def answer_to(error: BranchpointError) -> Answer:
    """What to tell of an error."""
    match error:
        case BudgetError():
            status = 402
        case RefusedError():
            status = 403
        case UsageError():
            status = 400
        case OutsideError():
            status = 504 if isinstance(error.__cause__, TimeoutError) else 502
        case _:
            status = 503
    return Answer(status, str(error), error.hint, refused=isinstance(error, RefusedError))

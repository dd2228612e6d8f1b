"""What a stream has printed, as a terminal would show it: no colours, returns carried out. Pure."""

import re
from dataclasses import dataclass

# Each begins where only one try can be made, or ends at the next beginning: what is printed may be
# one line of many MB, and the whole kernel waits for this.
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)")
_OVERWRITTEN = re.compile(r"^[^\n]*\r(?!\n)", re.MULTILINE)
_BEGUN = re.compile(r"\x1b(?:\[[0-9;?]*|\][^\x07\x1b\n]*\x1b?)?\Z")
# A longer sequence is none.
_LONGEST_SEQUENCE = 4096
# What a piece of text costs besides its characters, so that many small ones count as well.
_OVERHEAD = 64


@dataclass
class Printed:
    """Text of one stream that nothing else came between. What is overwritten is not kept."""

    name: str
    text: str = ""
    _unsettled: str = ""

    @property
    def size(self) -> int:
        """About how many characters it takes to keep."""
        return len(self.text) + _OVERHEAD

    def add(self, text: str) -> None:
        """More of it, which may begin or end in the middle of a sequence."""
        text = self._unsettled + text
        begun = _BEGUN.search(text[-_LONGEST_SEQUENCE:])
        self._unsettled = "" if begun is None else begun[0]
        settled = _ANSI.sub("", text.removesuffix(self._unsettled))
        if settled.endswith("\r"):
            # What it does depends on what comes next.
            settled, self._unsettled = settled[:-1], "\r" + self._unsettled
        if "\r" in settled:
            whole, end, line = self.text.rpartition("\n")
            self.text = whole + end + _OVERWRITTEN.sub("", line + settled)
        else:
            self.text += settled

    def beginning(self, characters: int) -> "Printed":
        """Take its first characters off."""
        taken, self.text = self.text[:characters], self.text[characters:]
        return Printed(self.name, taken)


def as_on_a_terminal(text: str) -> str:
    r"""Without colours, and with carriage returns carried out.

    >>> as_on_a_terminal("\x1b[31m10%\r50%\x1b[0m\n")
    '50%\n'
    """
    text = _ANSI.sub("", text)
    return _OVERWRITTEN.sub("", text) if "\r" in text else text

"""Members taken out of a JSON text that comes in pieces, without holding the rest of it.

What is no JSON gives nothing, or something that stands in it; it never raises.
"""

import json
import re
from collections.abc import Iterable
from enum import Enum, auto

Route = tuple[str, ...]

LONGEST_VALUE = 64 << 10
# What has more brackets, commas and strings than this is made to keep its reader busy.
MOST_MARKS = 2_000_000
_LONGEST_KEY = 256
_MARKS = re.compile(rb'["{}\[\],:]')
_MARKS_BELOW = re.compile(rb'["{}\[\]]')
_INSIDE_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)


class _Expect(Enum):
    KEY = auto()
    COLON = auto()
    END = auto()


class Members:
    """Takes the members at given paths out of a JSON object; the last of one name counts.

    Of each it keeps at most `LONGEST_VALUE` bytes; a longer value is not taken. After `MOST_MARKS`
    it reads no further.
    """

    def __init__(self, wanted: Iterable[Route]) -> None:
        self._wanted = frozenset(wanted)
        self._inner = frozenset(path[:n] for path in self._wanted for n in range(len(path)))
        self._found: dict[Route, object] = {}
        # The objects that are open and lead to something wanted, each by its path.
        self._open: list[Route] = []
        self._depth_below = 0
        self._expect = _Expect.KEY
        self._in_string = False
        self._after_backslash = False
        self._key: bytearray | None = None
        self._member: Route | None = None
        self._value: bytearray | None = None
        self._marks = 0

    def found(self) -> dict[Route, object]:
        """What was found so far, by path."""
        return dict(self._found)

    def feed(self, data: bytes) -> None:
        """Read the next piece."""
        at = 0
        while at < len(data) and self._marks < MOST_MARKS:
            at = self._through_string(data, at) if self._in_string else self._to_mark(data, at)

    def _to_mark(self, data: bytes, at: int) -> int:
        marks = _MARKS_BELOW if self._depth_below else _MARKS
        match = marks.search(data, at)
        if match is None:
            self._keep(data, at, len(data))
            return len(data)
        end = match.end()
        if self._depth_below or match[0] in b'"{[':
            self._keep(data, at, end)
        else:
            self._keep(data, at, match.start())
        self._marks += 1
        self._mark(match[0])
        return end

    def _through_string(self, data: bytes, at: int) -> int:
        begin = at
        if self._after_backslash:
            self._after_backslash = False
            at += 1
        match = _INSIDE_STRING.match(data, at)
        end = match.end() if match is not None else at
        ended = False
        if end < len(data):
            ended = data[end : end + 1] == b'"'
            self._after_backslash = not ended
            end += 1
        self._keep(data, begin, end)
        if self._key is not None and len(self._key) <= _LONGEST_KEY:
            self._key += data[begin : min(end, begin + _LONGEST_KEY + 1)]
        if ended:
            self._in_string = False
            self._end_key()
        return end

    def _mark(self, mark: bytes) -> None:
        match mark:
            case b'"':
                self._in_string = True
                if self._open and not self._depth_below and self._expect is _Expect.KEY:
                    self._key = bytearray()
            case b"{" | b"[":
                self._enter(is_object=mark == b"{")
            case b"}" | b"]":
                self._leave()
            case b",":
                self._end_value()
                self._expect = _Expect.KEY
            case _:
                if self._expect is _Expect.COLON:
                    self._expect = _Expect.END
                    if self._member in self._wanted:
                        self._value = bytearray()

    def _enter(self, *, is_object: bool) -> None:
        path: Route | None = self._member if self._open else ()
        reached = not self._open or self._expect is _Expect.END
        if self._depth_below or not is_object or not reached or path not in self._inner:
            self._depth_below += 1
            return
        self._open.append(path)
        self._expect = _Expect.KEY
        self._member = None

    def _leave(self) -> None:
        if self._depth_below:
            self._depth_below -= 1
            return
        self._end_value()
        if self._open:
            self._open.pop()
        self._expect = _Expect.END
        self._member = None

    def _end_key(self) -> None:
        key, self._key = self._key, None
        if key is None:
            return
        name = _parsed(b'"' + key) if len(key) <= _LONGEST_KEY else None
        self._member = (*self._open[-1], name) if isinstance(name, str) else None
        self._expect = _Expect.COLON

    def _end_value(self) -> None:
        value, self._value = self._value, None
        member, self._member = self._member, None
        if value is None or member is None:
            return
        if len(value) <= LONGEST_VALUE:
            self._found[member] = _parsed(bytes(value))
        else:
            self._found.pop(member, None)

    def _keep(self, data: bytes, begin: int, end: int) -> None:
        if self._value is not None and len(self._value) <= LONGEST_VALUE:
            self._value += data[begin : min(end, begin + LONGEST_VALUE + 1)]


def _parsed(text: bytes | bytearray) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None

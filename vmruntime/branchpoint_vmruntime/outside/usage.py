"""What a model's reply says it counted, read from the reply as it passes through.

Known are the replies of hosts that speak like OpenAI or Anthropic, whole or as an event stream. A
reply is never held: whatever its length, only what it says of its usage is kept.
"""

import json
import posixpath
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Protocol, cast
from urllib.parse import unquote

from branchpoint_vmruntime.ledger import Usage
from branchpoint_vmruntime.outside.facts import Price
from branchpoint_vmruntime.outside.members import Members, Route

_ENDINGS = ("/chat/completions", "/completions", "/responses", "/embeddings", "/messages")
_JSON = re.compile(r"application/(?:json|[\w.+-]+\+json)", re.IGNORECASE)
_EVENTS = "text/event-stream"

_WRAPPERS = ((), ("response",), ("message",))
_WANTED = [(*wrapper, name) for wrapper in _WRAPPERS for name in ("usage", "model")]
_CACHES = ("cache_creation_input_tokens", "cache_read_input_tokens")
_COUNTS = (
    "prompt_tokens",
    "completion_tokens",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    *_CACHES,
)
_HIGHEST_COUNT = 1 << 40
_LONGEST_MODEL = 200
_LONGEST_HELD = 64 << 10
# No model says so much. What does is made to keep its reader busy.
_MOST_LINES = 500_000

_VERSION = re.compile(r"-(?:latest|[0-9]{3,8}|[0-9]{4}-[0-9]{2}-[0-9]{2})")

# What zlib is told of a body's wrapping.
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_BARE_WINDOW = -15
_HEADER_BYTES = 2
_PIECE_BYTES = 64 << 10
# A little data can inflate to very much: what is beyond these is not looked at.
_MOST_INFLATED = 256 << 20
_MOST_AT_ONCE = 1 << 20
_MOST_TIMES = 32


def is_model_call(method: str, path: str) -> bool:
    """Whether a request asks a model for something, by its method and its path.

    >>> is_model_call("POST", "/v1/chat/completions?api-version=2")
    True
    """
    if method.upper() != "POST":
        return False
    plain = posixpath.normpath(unquote(path.partition("?")[0]).lower())
    return plain.endswith(_ENDINGS)


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price listed for a model, or for the model of which it is a dated version.

    >>> mini = Price(input=0.15, output=0.6)
    >>> price_of("gpt-4o-mini-2024-07-18", {"gpt-4o-mini": mini}) == mini
    True
    """
    if model in prices:
        return prices[model]
    names = [
        name
        for name in prices
        if model.startswith(name) and _VERSION.fullmatch(model, pos=len(name))
    ]
    return prices[max(names, key=len)] if names else None


class Metering:
    """Meters replies of models, and prices what they count."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = dict(prices)

    def is_model_call(self, method: str, path: str) -> bool:
        """Whether a request asks a model for something."""
        return is_model_call(method, path)

    def meter(self, path: str, content_type: str, content_encoding: str) -> "Meter | None":
        """A meter for the reply to a POST to that path; None if it would tell nothing.

        Takes the values of the reply's `Content-Type` and `Content-Encoding`, empty if absent.
        """
        kind = content_type.partition(";")[0].strip().lower()
        coding = content_encoding.strip().lower()
        if not is_model_call("POST", path) or coding not in ("", "identity", *_WINDOWS):
            return None
        if kind == _EVENTS:
            reader = _EventReader()
        elif kind == "" or _JSON.fullmatch(kind):
            reader = _JsonReader()
        else:
            return None
        window = _WINDOWS.get(coding)
        return Meter(reader, None if window is None else _Unpacking(window), self._prices)


class _Tally:
    """Counts and the model's name, each as it was last told."""

    def __init__(self) -> None:
        self.model = ""
        self.counts: dict[str, int] = {}

    def take(self, text: "_Text") -> None:
        found = text.found()
        for wrapper in _WRAPPERS:
            model = found.get((*wrapper, "model"))
            if isinstance(model, str) and model:
                self.model = "".join(filter(str.isprintable, model))[:_LONGEST_MODEL]
            for name, count in _counts(found.get((*wrapper, "usage"))):
                self.counts[name] = count

    def usage(self, prices: Mapping[str, Price]) -> Usage | None:
        counts = self.counts
        if not counts:
            return None
        caches = sum(counts.get(name, 0) for name in _CACHES)
        tokens_out = counts.get("completion_tokens", counts.get("output_tokens", 0))
        if "prompt_tokens" in counts:
            tokens_in = counts["prompt_tokens"]
        elif "input_tokens" in counts:
            tokens_in = counts["input_tokens"] + caches
        else:
            tokens_in = max(0, counts.get("total_tokens", 0) - tokens_out)
        price = price_of(self.model, prices)
        # So much for a million tokens is as many millionths for one.
        micros = None if price is None else tokens_in * price.input + tokens_out * price.output
        return Usage(
            model=self.model,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            micros=None if micros is None else round(micros),
        )


class _Reader(Protocol):
    def feed(self, data: bytes) -> None: ...
    def tally(self) -> _Tally: ...


class _Inflate(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Text:
    """A JSON text: parsed at once if it is short, read as it comes if it is long."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._members: Members | None = None

    def feed(self, data: bytes) -> None:
        if self._members is not None:
            self._members.feed(data)
            return
        self._held += data
        if len(self._held) > _LONGEST_HELD:
            self._members = Members(_WANTED)
            self._members.feed(bytes(self._held))
            self._held.clear()

    def found(self) -> Mapping[Route, object]:
        if self._members is not None:
            return self._members.found()
        try:
            root: object = json.loads(self._held) if self._held else None
        except (ValueError, RecursionError):
            return {}
        return {route: value for route in _WANTED if (value := _at(root, route)) is not None}


class _JsonReader:
    def __init__(self) -> None:
        self._text = _Text()

    def feed(self, data: bytes) -> None:
        self._text.feed(data)

    def tally(self) -> _Tally:
        tally = _Tally()
        tally.take(self._text)
        return tally


class _EventReader:
    """Of an event stream, the data of each event."""

    _NAME = b"data:"

    def __init__(self) -> None:
        self._told = _Tally()
        self._event: _Text | None = None
        self._line_is_blank = True
        self._begin: bytes | None = b""
        self._is_data = False
        self._after_return = False
        self._lines = 0

    def feed(self, data: bytes) -> None:
        if self._after_return and data:
            self._after_return = False
            data = data.removeprefix(b"\n")
        lines = data.splitlines(keepends=True) if self._lines < _MOST_LINES else []
        self._lines += len(lines)
        for line in lines:
            content = line.rstrip(b"\r\n")
            if content:
                self._piece(content)
            if len(content) < len(line):
                self._end_line()
        self._after_return = data.endswith(b"\r")

    def tally(self) -> _Tally:
        tally = _Tally()
        tally.model, tally.counts = self._told.model, dict(self._told.counts)
        if self._event is not None:
            tally.take(self._event)
        return tally

    def _piece(self, content: bytes) -> None:
        self._line_is_blank = False
        if self._begin is not None:
            begin = self._begin + content
            if len(begin) < len(self._NAME):
                self._begin = begin
                return
            self._begin = None
            self._is_data = begin.startswith(self._NAME)
            content = begin[len(self._NAME) :]
        if self._is_data:
            self._event = self._event or _Text()
            self._event.feed(content)

    def _end_line(self) -> None:
        if self._line_is_blank:
            if self._event is not None:
                self._told.take(self._event)
            self._event = None
        elif self._is_data and self._event is not None:
            self._event.feed(b"\n")
        self._line_is_blank = True
        self._begin = b""
        self._is_data = False


class Meter:
    """Reads one reply's body, in whatever pieces it comes. Garbage counts nothing."""

    def __init__(
        self, reader: _Reader, unpacking: "_Unpacking | None", prices: Mapping[str, Price]
    ) -> None:
        self._reader = reader
        self._unpacking = unpacking
        self._prices = prices

    def feed(self, data: bytes) -> None:
        """Read the next piece, as it came from the server."""
        if self._unpacking is None:
            self._reader.feed(data)
            return
        for piece in self._unpacking.pieces(data):
            self._reader.feed(piece)

    def usage(self) -> Usage | None:
        """What was counted so far; None if the reply says nothing of it."""
        return self._reader.tally().usage(self._prices)


class _Unpacking:
    """Inflates a body as it comes. What is damaged, or too much, ends it."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._begin: bytes | None = b""
        self._inflate: _Inflate | None = None
        self._inflated = 0

    def pieces(self, data: bytes) -> Iterator[bytes]:
        if self._begin is not None:
            data = self._begin + data
            if len(data) < _HEADER_BYTES:
                self._begin = data
                return
            self._begin = None
            bare = self._window == _WINDOWS["deflate"] and not _has_zlib_header(data)
            self._inflate = zlib.decompressobj(_BARE_WINDOW if bare else self._window)
        full = False
        room = min(_MOST_INFLATED - self._inflated, _MOST_AT_ONCE + _MOST_TIMES * len(data))
        while self._inflate is not None and (data or full):
            try:
                piece = self._inflate.decompress(data, _PIECE_BYTES)
            except zlib.error:
                self._inflate = None
                return
            data = self._inflate.unconsumed_tail
            full = len(piece) == _PIECE_BYTES
            self._inflated += len(piece)
            room -= len(piece)
            if self._inflate.eof or room < 0:
                self._inflate = None
            yield piece


def _has_zlib_header(data: bytes) -> bool:
    # Some servers call that deflate which has no header around it.
    return data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:_HEADER_BYTES]) % 31 == 0


def _at(root: object, route: Route) -> object:
    at = root
    for name in route:
        at = cast("dict[str, object]", at).get(name) if isinstance(at, dict) else None
    return at


def _counts(usage: object) -> Iterator[tuple[str, int]]:
    if not isinstance(usage, dict):
        return
    told = cast("dict[object, object]", usage)
    for name in _COUNTS:
        count = told.get(name)
        if type(count) is int and 0 <= count <= _HIGHEST_COUNT:
            yield name, count

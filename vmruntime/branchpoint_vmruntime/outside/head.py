"""The head of a request: where it is to go, and what of it goes there. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import h11

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.outside.injection import Headers
from branchpoint_vmruntime.outside.names import split_port, with_port

KEY_HEADER = b"idempotency-key"
UNKNOWN_HEADER = b"branchpoint-unknown"
_DEFAULT_PORTS = {"http": 80, "https": 443}
# Those of one connection alone, and what is worked out anew for the next one.
_OF_THE_CONNECTION = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"content-length",
        b"upgrade",
        b"expect",
        b"host",
        UNKNOWN_HEADER,
    }
)
_ABSOLUTE = re.compile(r"http://([^/?#]*)([^#]*)", re.IGNORECASE)
_HOW_TO = "this is the way out of the machine: it takes requests as an HTTP proxy does"


@dataclass(frozen=True, slots=True)
class Origin:
    """A server: how it is spoken to, and where it is."""

    scheme: Literal["http", "https"]
    host: str
    port: int

    @property
    def authority(self) -> str:
        """Host, and port unless it is the scheme's own."""
        text = with_port(self.host, self.port)
        usual = f":{_DEFAULT_PORTS[self.scheme]}"
        return text.removesuffix(usual) if self.port == _DEFAULT_PORTS[self.scheme] else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A request's head. `headers` are those for the server but for `framing`, its body's length."""

    method: str
    origin: Origin
    target: bytes
    headers: Headers = field(repr=False)
    framing: Headers = ()
    key: str = ""
    retry: bool = False
    upgrade: bytes = b""

    @property
    def url(self) -> str:
        """Where it goes, as the program wrote it."""
        return f"{self.origin.scheme}://{self.origin.authority}{self.target.decode('ascii')}"

    @property
    def path(self) -> str:
        """The path alone."""
        return self.target.decode("ascii").partition("?")[0]

    def outgoing(self, target: bytes, headers: Headers, *, length: int | None) -> h11.Request:
        """What the server is sent; `length` is that of a body that was read, None passes it on."""
        framing = self.framing
        if length is not None:
            framing = ((b"Content-Length", str(length).encode()),) if length or framing else ()
        switch: Headers = ((b"Connection", b"close"),)
        if self.upgrade:
            switch = ((b"Connection", b"Upgrade"), (b"Upgrade", self.upgrade))
        host = (b"Host", self.origin.authority.encode())
        return h11.Request(
            method=self.method, target=target, headers=[host, *headers, *framing, *switch]
        )


def read_head(request: h11.Request, origin: Origin | None) -> Head:
    """The head of a request to the proxy; to `origin` itself, if its connection was opened here.

    UsageError in words if it is not for a proxy, or ambiguous.
    """
    origin, target = _place(request, origin)
    raw = request.headers.raw_items()
    named = [value for name, value in request.headers if name == b"host"]
    if named and split_port(_text(named[0]), origin.port) != (origin.host, origin.port):
        raise UsageError("the header Host names another host than the request")
    keys = {value for name, value in request.headers if name == KEY_HEADER}
    if len(keys) > 1:
        raise UsageError("the request bears two keys in Idempotency-Key")
    key = _text(keys.pop()).strip() if keys else ""
    upgrade = [value for name, value in request.headers if name == b"upgrade"]
    # Anything else, such as HTTP/2, would be a way past what is seen here.
    switches = not key and [value.strip().lower() for value in upgrade] == [b"websocket"]
    unknown = [value for name, value in request.headers if name == UNKNOWN_HEADER]
    return Head(
        method=request.method.decode("ascii").upper(),
        origin=origin,
        target=target,
        headers=end_to_end(raw),
        framing=_framing(request.headers),
        key=key,
        retry=[value.strip().lower() for value in unknown] == [b"retry"],
        upgrade=b"websocket" if switches else b"",
    )


def end_to_end(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """Headers without those that are of one connection alone."""
    named = {
        word.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for word in value.split(b",")
    }
    return tuple(
        (bytes(name), bytes(value))
        for name, value in headers
        if name.lower() not in _OF_THE_CONNECTION and name.lower() not in named
    )


def length_of(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """The header that tells a body's length, if it is told and the body is not chunked."""
    lower = {name.lower(): value for name, value in headers}
    if b"transfer-encoding" in lower or b"content-length" not in lower:
        return ()
    return ((b"Content-Length", bytes(lower[b"content-length"])),)


def _framing(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    if any(name == b"transfer-encoding" for name, _ in headers):
        # The parser accepts no other one.
        return ((b"Transfer-Encoding", b"chunked"),)
    return length_of(headers)


def _place(request: h11.Request, origin: Origin | None) -> tuple[Origin, bytes]:
    target = request.target.decode("ascii")
    if origin is not None:
        if not target.startswith("/") and (request.method, target) != (b"OPTIONS", "*"):
            raise UsageError("inside a connection to one host a request names a path")
        if "#" in target:
            raise UsageError("a request's path ends before #")
        return origin, request.target
    match = _ABSOLUTE.fullmatch(target)
    if match is None:
        raise UsageError(_HOW_TO)
    if "@" in match[1]:
        raise UsageError("a user and a password go into the header Authorization, not into the URL")
    host, port = split_port(match[1], _DEFAULT_PORTS["http"])
    path = match[2] if match[2].startswith("/") else f"/{match[2]}"
    return Origin("http", host, port), path.encode()


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")

"""Names and addresses of hosts in one spelling, and patterns of them. Pure."""

import re
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

from branchpoint_vmruntime.errors import UsageError

_LONGEST = 253
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")


def canonical_host(text: str) -> str:
    """The one spelling of a name (lower case, ASCII, no dot at its end) or of an address.

    UsageError if it is neither.

    >>> [canonical_host(text) for text in ("EXAMPLE.org.", "bücher.example", "0x7f.1")]
    ['example.org', 'xn--bcher-kva.example', '127.0.0.1']
    >>> canonical_host("[::FFFF:127.0.0.1]")
    '127.0.0.1'
    """
    if text.startswith("[") and text.endswith("]"):
        return _canonical_v6(text[1:-1], text)
    if ":" in text:
        return _canonical_v6(text, text)
    # Beyond this no name is valid, and the codec is slow on what is far beyond.
    if not text or len(text) > _LONGEST + 1:
        raise _no_host(text)
    try:
        name = text.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError as error:
        raise _no_host(text) from error
    labels = name.split(".")
    # What ends in a number is taken for an address by one resolver or another.
    if _NUMBER.fullmatch(labels[-1]):
        return _canonical_v4(name, text)
    if len(name) > _LONGEST or not all(_LABEL.fullmatch(label) for label in labels):
        raise _no_host(text)
    return name


def canonical_pattern(text: str) -> str:
    """The same for a pattern: a host, or `*.suffix`. UsageError if it is neither."""
    if not text.startswith("*."):
        return canonical_host(text)
    suffix = canonical_host(text[2:])
    if address_of(suffix) is not None:
        raise UsageError(f"{text!r}: addresses have no names below them")
    return f"*.{suffix}"


def matches(pattern: str, host: str) -> bool:
    """Whether `host` is meant by the pattern; both in their one spelling.

    >>> matches("*.example.org", "a.b.example.org"), matches("*.example.org", "example.org")
    (True, False)
    """
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) >= len(pattern)
    return pattern == host


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """The address that `host`, in its one spelling, is; None if it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def with_port(host: str, port: int) -> str:
    """Host and port as one word.

    >>> with_port("::1", 80)
    '[::1]:80'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_port(text: str, default: int | None = None) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `[ADDRESS]:PORT`, in one spelling; UsageError.

    >>> split_port("Example.org:8443"), split_port("[::1]", 80)
    (('example.org', 8443), ('::1', 80))
    """
    match = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?", text)
    if match is None:
        raise _no_host(text)
    port = int(match[2]) if match[2] else default
    if port is None:
        raise UsageError(f"{text[:80]!r} names no port")
    if not 0 < port < 1 << 16:
        raise UsageError(f"{port} is no port")
    return canonical_host(match[1]), port


def _canonical_v4(name: str, text: str) -> str:
    try:
        return str(IPv4Address(socket.inet_aton(name)))
    except OSError as error:
        raise _no_host(text) from error


def _canonical_v6(inner: str, text: str) -> str:
    try:
        address = IPv6Address(inner)
    except ValueError as error:
        raise _no_host(text) from error
    if address.scope_id is not None:
        raise UsageError(f"{text[:80]!r}: an address with a zone means nothing outside its machine")
    return str(address.ipv4_mapped or address)


def _no_host(text: str) -> UsageError:
    return UsageError(f"{text[:80]!r} is neither the name nor the address of a host")

"""Rules of what may leave, as people write them: `HOST[:PORT]`, `*.SUFFIX[:PORT]`, or a group."""

import difflib
import re

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.outside.facts import WEB_PORTS, Rule
from branchpoint_vmruntime.outside.names import canonical_pattern

GROUP_NAMES = ("pip", "apt")
HIGHEST_PORT = 65535

_EXAMPLES = "a host is written like api.example.org, *.example.org or api.example.org:8443"
_IPV6 = "an IPv6 address is written in brackets, like [2001:db8::1] or [2001:db8::1]:8443"
_WORD = re.compile(r"[A-Za-z0-9_-]+")
_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}")
_PORT = re.compile(r"[0-9]{1,5}")


def parse_allowed(text: str) -> str | Rule:
    """A group's name as it is, or the rule that a host's name stands for; UsageError in words.

    >>> parse_allowed("pip")
    'pip'
    >>> parse_allowed("api.example.org").ports
    (80, 443)
    """
    if text in GROUP_NAMES:
        return text
    if _WORD.fullmatch(text):
        near = difflib.get_close_matches(text.lower(), GROUP_NAMES, n=1, cutoff=0.5)
        known = f"did you mean {near[0]}?" if near else f"groups are {' and '.join(GROUP_NAMES)};"
        raise UsageError(
            f"{text!r} is no group of hosts, and no host with a domain",
            hint=f"{known} {_EXAMPLES}",
        )
    return parse_rule(text)


def parse_rule(text: str) -> Rule:
    """The rule for `HOST` or `HOST:PORT`, without a port those of the web; UsageError in words.

    Names become their ASCII form in lower case, IPv6 addresses are in brackets only in the text.

    >>> parse_rule("*.Example.com:8443")
    Rule(host='*.example.com', ports=(8443,), methods=(), private=False, inspect=False, group='')
    """
    host, colon, port = _split(text)
    return Rule(host=parse_host(host), ports=(parse_port(port),) if colon else WEB_PORTS)


def parse_host(text: str) -> str:
    """A host's name, `*.suffix` or an address, as rules hold it; UsageError in words.

    >>> parse_host("BÜCHER.example."), parse_host("*.Example.org"), parse_host("[2001:DB8::0:1]")
    ('xn--bcher-kva.example', '*.example.org', '2001:db8::1')
    """
    if "/" in text or "@" in text:
        host = re.sub(r"^.*//", "", text).partition("/")[0].rpartition("@")[2]
        instead = f": {host}" if host else ""
        raise UsageError("that is more than a host", hint=f"give the host alone{instead}")
    if text == "*":
        raise UsageError("'*' would be every host there is", hint="name the hosts that are needed")
    try:
        host = canonical_pattern(text)
    except UsageError as error:
        raise UsageError(str(error), hint=_IPV6 if ":" in text else _EXAMPLES) from error
    if not text.isascii() and _shown(host) != text.lower().removesuffix("."):
        raise UsageError(
            f"{text!r} can be read as more than one name",
            hint="write it in its ASCII form, which begins with xn--",
        )
    return host


def parse_port(text: str) -> int:
    """A port's number; UsageError in words."""
    if not _PORT.fullmatch(text) or not 0 < int(text) <= HIGHEST_PORT:
        raise UsageError(f"{text!r} is no port", hint=f"ports go from 1 to {HIGHEST_PORT}")
    return int(text)


def parse_method(text: str) -> str:
    """An HTTP method in upper case; UsageError in words.

    >>> parse_method("get")
    'GET'
    """
    if not _METHOD.fullmatch(text):
        raise UsageError(f"{text!r} is no method", hint="methods are words such as GET or POST")
    return text.upper()


def _shown(host: str) -> str:
    try:
        return host.encode().decode("idna")
    except UnicodeError:
        return host


def _split(text: str) -> tuple[str, str, str]:
    if text.startswith("["):
        address, bracket, rest = text.partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise UsageError(f"{text!r} is no host", hint=_IPV6)
        return f"{address}]", rest[:1], rest[1:]
    if "/" in text:
        return text, "", ""
    if text.count(":") > 1:
        raise UsageError(f"{text!r} is no host", hint=_IPV6)
    return text.partition(":")


def conditions(rule: Rule) -> str:
    """What a rule lets out beyond its host and ports, or looks into, as the ledger tells it.

    >>> conditions(Rule(host="a.example.org", methods=("GET", "HEAD"), private=True))
    'GET HEAD, private'
    """
    parts = (
        " ".join(rule.methods),
        "private" if rule.private and not rule.group else "",
        "inspect" if rule.inspect else "",
    )
    return ", ".join(filter(None, parts))

"""What the host's configuration says of registries, as rules and credentials. Pure."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.outside.facts import Rule
from branchpoint_vmruntime.outside.names import canonical_host

_PORTS = {"http": 80, "https": 443}
# Over plain HTTP they are seen; nothing is to be changed at a registry.
_READING = ("GET", "HEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCredential:
    """A user and a password of the host's configuration, which stay on the host.

    They go out by that scheme alone: what is for HTTPS is not sent in the clear.
    """

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    scheme: str = "https"

    @property
    def basic(self) -> bytes:
        """The two as the value of an `Authorization` header."""
        pair = f"{self.user}:{self.password}".encode()
        return b"Basic " + base64.b64encode(pair)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What a group lets out, and what machines are given with it.

    `notes` are sentences for whoever allowed it, on what is left out.
    """

    name: str
    rules: tuple[Rule, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    credentials: tuple[GroupCredential, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """A URL of the host's configuration, without its credentials."""

    url: str
    rule: Rule
    credential: GroupCredential | None

    @classmethod
    def of(cls, url: str, group: str) -> Self | None:
        """None if it is not reached by HTTP, or names no host."""
        parts = urlsplit(url)
        default = _PORTS.get(parts.scheme.lower())
        try:
            host, port = canonical_host(parts.hostname or ""), parts.port or default
        except (UsageError, ValueError):
            return None
        if default is None or port is None:
            return None
        credential = None
        if parts.username:
            user, password = unquote(parts.username), unquote(parts.password or "")
            credential = GroupCredential(
                host=host, port=port, user=user, password=password, scheme=parts.scheme.lower()
            )
        rule = Rule(
            host=host,
            ports=(port,),
            methods=_READING if parts.scheme.lower() == "http" else (),
            # What the host's own configuration names may well be in its own network.
            private=True,
            inspect=credential is not None,
            group=group,
        )
        return cls(_without_user(parts), rule, credential)


def _without_user(parts: SplitResult) -> str:
    bare = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=bare))

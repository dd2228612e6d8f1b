"""What may leave, what is added to it on the way, and what it costs: frozen facts, no behaviour."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

HTTPS_PORT = 443
WEB_PORTS = (80, HTTPS_PORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One host, or all below a suffix, that may be reached.

    `host` is a name, `*.suffix`, or an address. No `methods` means any. `private` lets the name
    lead to addresses of the host itself or of its own networks. `group` is what it was allowed as.
    To see methods, keys and usage inside HTTPS, `inspect` ends TLS on the host.
    """

    host: str
    ports: tuple[int, ...] = WEB_PORTS
    methods: tuple[str, ...] = ()
    private: bool = False
    inspect: bool = False
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSource:
    """Where a secret is read from, on the host: exactly one of the two is given."""

    variable: str | None = None
    file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSpec:
    """A secret as the manifest names it: by reference, never by value.

    `header` is the header to set, with `{}` where the secret goes; empty if only the placeholder is
    to be replaced where a request bears it.
    """

    name: str
    hosts: tuple[str, ...]
    header: str = "Authorization: Bearer {}"
    source: SecretSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Of a model's tokens, in units of the manifest's currency for a million."""

    input: float
    output: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What may be spent before it is refused: by a whole session, but `wall_s` by each branch.

    `money` is in units of the manifest's currency, `wall_s` in seconds of a live machine.
    """

    tokens: int | None = None
    money: float | None = None
    forks: int | None = None
    wall_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideSpec:
    """All that a manifest says of the outside world. `allow` are names of groups, or rules."""

    allow: tuple[str | Rule, ...] = ()
    secrets: tuple[SecretSpec, ...] = ()
    files: tuple[str, ...] = ()
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    currency: str = "USD"
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outfit:
    """What a machine is given on waking: variables (None takes one away), and files.

    The names of files are relative to `/run/branchpoint`; their contents replace what is there.
    """

    environment: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    files: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """Whose machine something comes from. `checkpoint` tells the nearest one, as of now."""

    session: str
    branch: str
    incarnation: str
    checkpoint: Callable[[], str]

"""The hosts a secret is bound to: which requests it may go out with."""

from dataclasses import dataclass

from branchpoint_vmruntime.errors import UsageError

_HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Binding:
    """A host's name, or all names below one if `below`; with no port, any."""

    name: str
    port: int | None = None
    below: bool = False

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return ("*." if self.below else "") + name + (f":{self.port}" if self.port else "")

    @classmethod
    def parse(cls, text: str) -> "Binding":
        """From `HOST`, `*.SUFFIX`, either with `:PORT`; UsageError in words.

        >>> Binding.parse("*.Example.org.:8443")
        Binding(name='example.org', port=8443, below=True)
        """
        below = text.startswith("*.")
        plain = text[2:] if below else text
        name, port = ("", None) if any(sign in plain for sign in "*/@ \t") else split_host(plain)
        if not name:
            raise UsageError(
                f"{text!r} is no host a secret can be bound to",
                hint="give a name such as api.example.org, *.example.org or api.example.org:8443",
            )
        return cls(name, port, below)

    def covers(self, name: str, port: int | None) -> bool:
        """Whether a request to that host is meant; the name as `split_host` gives it."""
        if self.port is not None and self.port != port:
            return False
        return name.endswith(f".{self.name}") if self.below else name == self.name

    def overlaps(self, other: "Binding") -> bool:
        """Whether there can be a host that both mean."""
        if self.port is not None and other.port is not None and self.port != other.port:
            return False
        if self.below and other.below:
            ours, theirs = f".{self.name}", f".{other.name}"
            return ours.endswith(theirs) or theirs.endswith(ours)
        if self.below:
            return other.name.endswith(f".{self.name}")
        return other.covers(self.name, other.port)


def split_host(text: str) -> tuple[str, int | None]:
    """A host's name as it is compared, and the port if one is given; UsageError in words.

    >>> split_host("API.example.org:443"), split_host("[::1]:80"), split_host("::1")
    (('api.example.org', 443), ('::1', 80), ('::1', None))
    """
    name, port = text, ""
    if text.startswith("["):
        name, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif text.count(":") == 1:
        name, _, port = text.partition(":")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) <= _HIGHEST_PORT):
        raise UsageError(f"{port!r} in {text!r} is no port", hint="ports go from 1 to 65535")
    return _comparable(name), int(port) if port else None


def _comparable(name: str) -> str:
    name = name.rstrip(".").lower()
    if name.isascii():
        return name
    try:
        return name.encode("idna").decode()
    except UnicodeError as error:
        raise UsageError(f"{name!r} cannot be a host's name", hint=str(error)) from error

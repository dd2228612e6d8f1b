"""Where the values of secrets come from, and the one class that holds a value."""

import os
from pathlib import Path
from typing import Never

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.outside.facts import SecretSource

_MOST_BYTES = 64 << 10

Stamp = tuple[int, int, int]


class Secret:
    """A value that no repr, log, traceback or pickle shows; `reveal` is the only way to it."""

    __slots__ = ("__value",)

    def __init__(self, value: bytes) -> None:
        self.__value = value

    def reveal(self) -> bytes:
        """The value, to be put into a request."""
        return self.__value

    def __repr__(self) -> str:
        return "<secret>"

    def __reduce__(self) -> Never:
        raise TypeError("a secret is not to be copied out of this process")

    def __reduce_ex__(self, _protocol: object) -> Never:
        self.__reduce__()


def checked(name: str, value: str, where: str) -> Secret:
    """The value as a secret; UsageError, which does not quote it, if it cannot be one."""
    secret = Secret(value.encode())
    wrong = _fault(value)
    # Shown by a debugger that prints local names in tracebacks.
    del value
    if wrong:
        raise UsageError(f"the secret {name} from {where} {wrong}", hint="give the value alone")
    return secret


def from_variable(name: str, variable: str) -> Secret:
    """The value of a variable of the host's environment; UsageError if it is not set."""
    if variable not in os.environ:
        raise UsageError(
            f"the secret {name} is to come from ${variable}, which is not set on this host",
            hint=f"set {variable} before the kernel starts, or name another source: "
            "a variable (env:NAME) or a file (file:PATH)",
        )
    return checked(name, os.environ[variable], f"${variable}")


def from_file(name: str, path: Path) -> tuple[Secret, Stamp]:
    """The value in a file less a trailing newline, and when that was; UsageError in words."""
    path = path.expanduser()
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            found = Secret(file.read(_MOST_BYTES + 1))
    except OSError as error:
        raise UsageError(
            f"the secret {name} is to come from {path}, which cannot be read: {error.strerror}",
            hint="put it there, readable by you alone, or name another source",
        ) from error
    text = _text(found)
    if text is None:
        raise UsageError(
            f"the secret {name} is to come from {path}, which is no text of at most 64 KiB",
            hint="the file holds the value and nothing else",
        )
    value = checked(name, text.reveal().decode(), str(path))
    return value, (status.st_mtime_ns, status.st_size, status.st_ino)


def stamp(path: Path) -> Stamp | None:
    """What tells that a file was written anew; None if it is not there."""
    try:
        status = path.expanduser().stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def describe(source: SecretSource) -> str:
    """Where a secret comes from, in words.

    >>> describe(SecretSource(variable="TOKEN"))
    '$TOKEN'
    """
    if source.variable is not None:
        return f"${source.variable}"
    return str(source.file) if source.file is not None else "what was typed in"


def _text(found: Secret) -> Secret | None:
    raw = found.reveal()
    if len(raw) > _MOST_BYTES:
        return None
    try:
        raw.decode()
    except UnicodeDecodeError:
        return None
    return Secret(raw.removesuffix(b"\n").removesuffix(b"\r"))


def _fault(value: str) -> str:
    if not value:
        return "is empty"
    if any(ord(sign) < ord(" ") or ord(sign) == 0x7F for sign in value):
        return "holds a line break or another control character"
    if value != value.strip():
        return "begins or ends with a blank"
    return ""

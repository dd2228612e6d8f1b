"""Where the values of secrets come from, and the one class that holds a value."""

import os
from pathlib import Path
from typing import Never

from branchpoint_vmruntime.errors import UsageError

_MOST_BYTES = 64 << 10
_DELETE = 0x7F

Stamp = tuple[int, int, int]


class Secret:
    """A value that no repr, log, traceback or pickle shows; `reveal` is the only way to it."""

    __slots__ = ("__value",)

    def __init__(self, value: bytes) -> None:
        self.__value = value

    @classmethod
    def of(cls, text: str) -> "Secret":
        """From text as Python has it from a variable or a prompt."""
        return cls(text.encode(errors="surrogateescape"))

    def reveal(self) -> bytes:
        """The value, to be put into a request."""
        return self.__value

    def __repr__(self) -> str:
        return "<secret>"

    def __reduce__(self) -> Never:
        raise TypeError("a secret is not to be copied out of this process")

    def __reduce_ex__(self, _protocol: object) -> Never:
        self.__reduce__()


def checked(name: str, secret: Secret, where: str) -> Secret:
    """The secret itself; UsageError, which does not quote the value, if it cannot be one.

    Nobody on the way here keeps the bare value in a local name: some tracebacks show those.
    """
    if wrong := _fault(secret):
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
    return checked(name, Secret.of(os.environ[variable]), f"${variable}")


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
    if len(found.reveal()) > _MOST_BYTES or not _is_text(found):
        raise UsageError(
            f"the secret {name} is to come from {path}, which is no text of at most 64 KiB",
            hint="the file holds the value and nothing else",
        )
    value = Secret(found.reveal().removesuffix(b"\n").removesuffix(b"\r"))
    return checked(name, value, str(path)), (status.st_mtime_ns, status.st_size, status.st_ino)


def stamp(path: Path) -> Stamp | None:
    """What tells that a file was written anew; None if it is not there."""
    try:
        status = path.expanduser().stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _is_text(secret: Secret) -> bool:
    try:
        secret.reveal().decode()
    except UnicodeDecodeError:
        return False
    return True


def _fault(secret: Secret) -> str:
    raw = secret.reveal()
    if not raw:
        return "is empty"
    if not _is_text(secret):
        return "is no text"
    if any(byte < ord(" ") or byte == _DELETE for byte in raw):
        return "holds a line break or another control character"
    if raw != raw.strip():
        return "begins or ends with a blank"
    return ""

"""Errors as they cross the control socket: their words, and as much of their kind as can be told.

`{"message", "hint", "usage", "kind"}`, and of a name that is not known `what`, `name` and `known`.
An error of a kind that the other end does not know is a UsageError there, or a BranchpointError.
"""

from collections.abc import Mapping
from typing import Any

from branchpoint_vmruntime.errors import (
    BranchpointError,
    BudgetError,
    CheckpointError,
    DamagedError,
    FreezeError,
    GuestRefusedError,
    HostError,
    IncompatibleError,
    KernelDiedError,
    MachineEndedError,
    MachineError,
    MachineStartError,
    ManifestError,
    NameTakenError,
    SessionBusyError,
    StorageError,
    TransferError,
    UnknownNameError,
    UsageError,
    WakeError,
)

_MADE_OF_WORDS = {
    kind.__name__: kind
    for kind in (
        BudgetError,
        CheckpointError,
        DamagedError,
        FreezeError,
        GuestRefusedError,
        HostError,
        IncompatibleError,
        KernelDiedError,
        MachineEndedError,
        MachineError,
        MachineStartError,
        ManifestError,
        NameTakenError,
        SessionBusyError,
        StorageError,
        TransferError,
        WakeError,
    )
}


def refusal_of(error: BranchpointError) -> dict[str, Any]:
    """The error as JSON.

    >>> refusal_of(SessionBusyError("a cell runs", hint="wait"))["kind"]
    'SessionBusyError'
    """
    told: dict[str, Any] = {
        "message": str(error),
        "hint": error.hint,
        "usage": isinstance(error, UsageError),
        "kind": next((it.__name__ for it in type(error).__mro__ if it.__name__ in _KNOWN), ""),
    }
    if isinstance(error, UnknownNameError):
        told |= {"what": error.kind, "name": error.name, "known": list(error.known)}
    return told


def error_of(told: Mapping[str, Any]) -> BranchpointError:
    """The reverse of `refusal_of`, as far as it can be.

    >>> error_of({"message": "not so", "hint": "like that", "usage": True})
    UsageError('not so')
    """
    message, hint = str(told.get("message")), str(told.get("hint", ""))
    match told:
        case {"kind": "UnknownNameError", "what": str(what), "name": str(name), "known": [*known]}:
            return UnknownNameError(what, name, tuple(map(str, known)), hint=hint)
        case {"kind": str(kind)} if kind in _MADE_OF_WORDS:
            return _MADE_OF_WORDS[kind](message, hint=hint)
        case _:
            return (UsageError if told.get("usage") else BranchpointError)(message, hint=hint)


_KNOWN = {*_MADE_OF_WORDS, UnknownNameError.__name__, UsageError.__name__}

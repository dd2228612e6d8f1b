"""Every error of the runtime, as one tree, named by what the caller can do about it.

BranchpointError
├── UsageError                 what was asked for cannot be: ask differently
│   ├── UnknownNameError       no such checkpoint, branch or session
│   ├── NameTakenError         the name is in use
│   └── ManifestError          branchpoint.yaml says something that cannot be
├── HostError                  this host lacks something: install, free or configure it
│   ├── MissingToolError       QEMU or a tool is not there, or too old
│   │   └── OldToolError       it is there, but too old
│   ├── StorageError           the disk is full or not writable
│   └── ImageBuildError        the guest image could not be made
├── MachineError               one machine failed; others and the store are untouched
│   ├── MachineStartError      it never came up
│   ├── MachineEndedError      it was there and is gone
│   ├── KernelDiedError        the machine lives, the kernel inside it does not
│   ├── GuestSilentError       it runs but does not answer
│   ├── GuestRefusedError      it answers that it could not do what was asked
│   ├── FreezeError            it could not be brought to rest: no checkpoint, it runs on
│   ├── WakeError              it was loaded but did not complete the wake handshake
│   └── StreamResetError       one stream to or from it was cut off
├── OutsideError               something between a machine and the outside world
│   ├── RefusedError           policy does not let it out
│   │   └── BudgetError        a budget is used up
│   ├── UnknownOutcomeError    it was begun, and nobody knows whether it took effect
│   └── TransferError          a file could not be brought in or out; nothing of it remains
├── CheckpointError            a checkpoint could not be written: nothing of it remains
├── DamagedError               saved data is not what was written, or cannot be read
├── IncompatibleError          saved under another QEMU, accelerator, CPU, size or image
├── SessionBusyError           another process owns the session, or an operation is running
└── OwnerSilentError           the process that owns the session is there and does not answer
"""

from pathlib import Path


class BranchpointError(Exception):
    """The root. `str(error)` says what happened; `hint` says what to do next."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(BranchpointError):
    """What was asked for cannot be done as asked."""


class UnknownNameError(UsageError):
    """No checkpoint, branch or session has that name."""

    def __init__(self, kind: str, name: str, known: tuple[str, ...], *, hint: str = "") -> None:
        there = ", ".join(known) if known else "none yet"
        super().__init__(f"there is no {kind} {name!r}; there is: {there}", hint=hint)
        self.kind = kind
        self.name = name
        self.known = known


class NameTakenError(UsageError):
    """The name is already in use."""


class ManifestError(UsageError):
    """The manifest says something that cannot be; the message names the line."""


class HostError(BranchpointError):
    """Something this host lacks."""


class MissingToolError(HostError):
    """A program is not there, or is too old for the mechanism."""


class OldToolError(MissingToolError):
    """A program is there, but too old for the mechanism."""


class StorageError(HostError):
    """The disk is full or the folder cannot be written."""


class ImageBuildError(HostError):
    """The guest image could not be made."""


class MachineError(BranchpointError):
    """One machine failed; other machines and the store are untouched."""


class MachineStartError(MachineError):
    """The machine never came up."""


class MachineEndedError(MachineError):
    """The machine was running and has ended."""


class KernelDiedError(MachineError):
    """The machine lives, but the kernel process inside it has ended."""


class GuestSilentError(MachineError):
    """The guest stopped answering; the machine may still run."""

    def __init__(self, asked: str, waited_s: float, console: Path) -> None:
        super().__init__(
            f"the machine did not answer {asked!r} within {waited_s:g} s (console: {console})",
            hint="go back to a checkpoint with %rollback, or restart the kernel",
        )
        self.waited_s = waited_s
        self.console = console


class GuestRefusedError(MachineError):
    """The guest answered that it could not do what was asked."""


class FreezeError(MachineError):
    """The guest could not be brought to rest; nothing was saved and it runs on."""


class WakeError(MachineError):
    """A machine was loaded but did not complete the wake handshake; it was not handed out."""


class StreamResetError(MachineError):
    """A stream was cut off: by the other end, or because the machine woke anew."""


class OutsideError(BranchpointError):
    """Something between a machine and the outside world did not go through."""


class RefusedError(OutsideError):
    """Policy does not let it out."""


class BudgetError(RefusedError):
    """A budget is used up; the message says which, the hint how to raise it."""


class UnknownOutcomeError(OutsideError):
    """It was begun, and nobody knows whether it took effect."""


class TransferError(OutsideError):
    """A file could not be brought in or out; nothing of it remains."""


class CheckpointError(BranchpointError):
    """A checkpoint could not be written; nothing of it remains and the machine runs on."""


class DamagedError(BranchpointError):
    """Saved data is not what was written, or cannot be read."""


class IncompatibleError(BranchpointError):
    """A checkpoint was saved under another QEMU, accelerator, CPU, size or image."""


class SessionBusyError(BranchpointError):
    """Another process owns the session, or another operation is running on it."""


class OwnerSilentError(BranchpointError):
    """The process that owns the session is there, and has not answered in time."""

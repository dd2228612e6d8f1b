"""Loaded into the user's IPython kernel as an extension: tells it who it is at each wake.

`--ext=branchpoint_guestkernel.hook`. A daemon thread answers guestd on the unix socket
`$BRANCHPOINT_HOOK_SOCKET` (a leading `@` means abstract), a line of tab-separated fields each:

    awake INCARNATION BRANCH INDEX SESSION RESEED
    -> awake NONCE RESEEDED

where RESEED is bytes in hexadecimal or nothing, and RESEEDED names generators, comma-separated.

The nonce is random, made at start and held in this process's memory alone: whoever answers with it
is the very process that was saved, not a fresh one in its place.

*Reseeded* lists the generators whose global state was replaced by one derived from the bytes of
RESEED: "random" (the functions of the module `random`), "numpy" (the legacy global behind
`numpy.random.rand` and its like) and "torch" (its default generators), the last two only if the
process has loaded them already. One that is loaded later seeds itself from the system's entropy.
Generator objects made by the user (`random.Random()`, `numpy.random.default_rng()`) are copies in
every fork and stay equal. With no RESEED nothing is touched.

Nothing is imported at a wake, and every path is walked once at start: under emulation a first time
costs 10 ms or more.
"""

import os
import random
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from IPython.core.error import UsageError

SOCKET_VARIABLE = "BRANCHPOINT_HOOK_SOCKET"
LINE_MAGICS = (
    "checkpoint",
    "fork",
    "rollback",
    "branches",
    "checkpoints",
    "switch",
    "keep",
    "drop",
)
CELL_MAGICS = ("branch",)
NONCE = os.urandom(16).hex()

_identity = {"incarnation": "", "branch": "", "index": "0", "session": ""}
_VARIABLES = {key: f"BRANCHPOINT_{key.upper()}" for key in _identity}


class Shell(Protocol):
    """What is used of IPython's InteractiveShell, which has no complete types."""

    user_ns: dict[str, Any]

    def push(self, variables: dict[str, Any], interactive: bool) -> None: ...  # noqa: FBT001
    def register_magic_function(
        self, func: Callable[..., None], magic_kind: str, magic_name: str
    ) -> None: ...


class BranchIdentity:
    """Which branch this is, as of now: `branch.name`, `.index`, `.incarnation`, `.session`."""

    @property
    def name(self) -> str:
        """The branch's name."""
        return str(_identity["branch"])

    @property
    def index(self) -> int:
        """0 for the first branch of a session, else the number among the forks it was made with."""
        return int(_identity["index"])

    @property
    def incarnation(self) -> str:
        """The id of this waking; another after every fork, rollback and resume."""
        return str(_identity["incarnation"])

    @property
    def session(self) -> str:
        """The id of the notebook's session."""
        return str(_identity["session"])

    def __repr__(self) -> str:
        return f"<branch {self.name!r}, index {self.index}>"


BRANCH = BranchIdentity()


def reseed(seed: bytes) -> list[str]:
    """Give the loaded global generators a state derived from `seed`; the names of those reached."""
    random.seed(seed)
    reseeded = ["random"]
    if numpy_random := sys.modules.get("numpy.random"):
        words = [int.from_bytes(seed[at : at + 4], "little") for at in range(0, len(seed), 4)]
        numpy_random.seed(words)
        reseeded.append("numpy")
    if (torch := sys.modules.get("torch")) and hasattr(torch, "manual_seed"):
        torch.manual_seed(int.from_bytes(seed[:8], "little") >> 1)
        reseeded.append("torch")
    return reseeded


def adopt(**identity: str) -> None:
    """Be this from now on, and tell processes started from here."""
    for key, value in identity.items():
        _identity[key] = value
        os.environ[_VARIABLES[key]] = value


def offer_branch(shell: Shell) -> None:
    """Put `branch` into the user's namespace, out of sight of `%who`, unless the name is theirs."""
    if "branch" not in shell.user_ns:
        shell.push({"branch": BRANCH}, interactive=False)


class Answering(threading.Thread):
    """Answers guestd for as long as the kernel lives."""

    def __init__(self, shell: Shell, address: str) -> None:
        super().__init__(name="branchpoint-hook", daemon=True)
        self._shell = shell
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("\0" + address[1:] if address.startswith("@") else address)
        self._listener.listen()

    def run(self) -> None:
        """Serve one connection after another."""
        while True:
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rwb") as lines:
                try:
                    for line in lines:
                        lines.write(self.answer(line))
                        lines.flush()
                except OSError:
                    continue

    def answer(self, line: bytes) -> bytes:
        """The answer to one line. Whatever goes wrong is said, not raised: the thread must live."""
        try:
            reseeded = self._wake(line.decode().rstrip("\n"))
        except Exception as error:
            return f"failed {type(error).__name__}: {error}\n".encode()
        return f"awake {NONCE}\t{','.join(reseeded)}\n".encode()

    def _wake(self, line: str) -> list[str]:
        word, _, rest = line.partition(" ")
        if word != "awake":
            raise ValueError(f"unknown order {word!r}")
        incarnation, branch, index, session, seed = rest.split("\t")
        adopt(incarnation=incarnation, branch=branch, index=index, session=session)
        offer_branch(self._shell)
        return reseed(bytes.fromhex(seed)) if seed else []


def explain_line(name: str, line: str) -> None:
    """Stands in for the host's magic wherever the host cannot see it."""
    raise UsageError(
        f"%{name} works at the top level of a cell, at the start of a line: "
        "not inside a function, loop, with block, assignment or string"
    )


def explain_cell(name: str, line: str, cell: str) -> None:
    """Stands in for the host's cell magic wherever the host cannot see it."""
    raise UsageError(f"%%{name} must be the first line of a cell")


def register_explanations(shell: Shell) -> None:
    """Make the host's magics known, so that a misplaced one is explained instead of unknown."""
    for name in LINE_MAGICS:
        shell.register_magic_function(partial(explain_line, name), "line", name)
    for name in CELL_MAGICS:
        shell.register_magic_function(partial(explain_cell, name), "cell", name)


def load_ipython_extension(shell: Shell) -> None:
    """IPython's entry point for extensions."""
    register_explanations(shell)
    offer_branch(shell)
    address = os.environ.get(SOCKET_VARIABLE)
    if not address:
        return
    answering = Answering(shell, address)
    walk = "\t".join([*_identity.values(), os.urandom(32).hex()])
    answering.answer(f"awake {walk}\n".encode())
    answering.start()

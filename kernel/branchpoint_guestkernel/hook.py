"""Loaded into the user's IPython kernel as an extension: tells it who it is at each wake.

`--ext=branchpoint_guestkernel.hook`. A daemon thread answers guestd on the unix socket
`$BRANCHPOINT_HOOK_SOCKET` (a leading `@` means abstract), a line of tab-separated fields each:

    awake INCARNATION BRANCH INDEX SESSION REASON RESEED
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

Once it has answered, what the user gave to `branchpoint.on_wake` is called.

On a second socket, that address with `.questions` after it, it answers in its own time, each
connection in a thread of its own, for what it asks of the user's objects may never return:

    variables REPR_LIMIT
    -> JSON, as `variables` has it
    environment JSON
    -> true, when `os.environ` has these variables, and no more those that are null

Nothing is imported at a wake, and every path is walked once at start: under emulation a first time
costs 10 ms or more.
"""

import contextlib
import json
import os
import random
import socket
import sys
import threading
from typing import Any, Protocol

from branchpoint.waking import adopt, identity, run_callbacks
from branchpoint_guestkernel import magics
from branchpoint_guestkernel.output import limit_output
from branchpoint_guestkernel.variables import describe_variables
from branchpoint_guestkernel.widget_comms import refuse_quietly

SOCKET_VARIABLE = "BRANCHPOINT_HOOK_SOCKET"
NONCE = os.urandom(16).hex()

_ENVIRONMENT = tuple(
    f"BRANCHPOINT_{name}" for name in ("INCARNATION", "BRANCH", "INDEX", "SESSION", "REASON")
)


class Shell(magics.Magics, Protocol):
    """What is used of IPython's InteractiveShell, which has no complete types."""

    user_ns: dict[str, Any]
    user_ns_hidden: dict[str, Any]

    def push(self, variables: dict[str, Any], interactive: bool) -> None: ...  # noqa: FBT001


class BranchIdentity:
    """Which branch this is, as of now: `branch.name`, `.index`, `.incarnation`, `.session`."""

    @property
    def name(self) -> str:
        """The branch's name."""
        return identity().name

    @property
    def index(self) -> int:
        """0 for the first branch of a session, else the number among the forks it was made with."""
        return identity().index

    @property
    def incarnation(self) -> str:
        """The id of this waking; another after every fork, rollback and resume."""
        return identity().incarnation

    @property
    def session(self) -> str:
        """The id of the notebook's session."""
        return identity().session

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


def offer_branch(shell: Shell) -> None:
    """Put `branch` into the user's namespace, out of sight of `%who`, unless the name is theirs."""
    if "branch" not in shell.user_ns:
        shell.push({"branch": BRANCH}, interactive=False)


class Door(threading.Thread):
    """Lets in whoever connects, for as long as the kernel lives."""

    def __init__(self, shell: Shell, address: str) -> None:
        super().__init__(name=f"branchpoint-{type(self).__name__.lower()}", daemon=True)
        self.shell = shell
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("\0" + address[1:] if address.startswith("@") else address)
        self._listener.listen()

    def run(self) -> None:
        """Welcome one after another."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.welcome(connection)

    def welcome(self, connection: socket.socket) -> None:
        """See to one who has connected."""
        raise NotImplementedError

    def close(self) -> None:
        """Let nobody in any more."""
        if self.is_alive():
            self._listener.shutdown(socket.SHUT_RDWR)
            self.join()
        self._listener.close()


class Answering(Door):
    """Answers guestd, which keeps its connection."""

    def welcome(self, connection: socket.socket) -> None:
        """Answer line after line."""
        with contextlib.suppress(OSError), connection, connection.makefile("rwb") as lines:
            for line in lines:
                lines.write(self.answer(line))
                lines.flush()
                run_callbacks()

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
        *who, seed = rest.split("\t")
        incarnation, branch, index, session, reason = who
        adopt(branch, int(index), incarnation, session, reason)
        for variable, value in zip(_ENVIRONMENT, who, strict=True):
            os.environ[variable] = value
        offer_branch(self.shell)
        return reseed(bytes.fromhex(seed)) if seed else []


class Inquiries(Door):
    """Takes questions about the user's objects, and never waits for an answer itself."""

    def welcome(self, connection: socket.socket) -> None:
        """Give it a thread of its own."""
        threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rwb") as lines:
            word, _, rest = lines.readline().decode().partition(" ")
            if word == "variables":
                names, hidden = self.shell.user_ns, self.shell.user_ns_hidden
                found = describe_variables(names, hidden, repr_limit=int(rest))
                lines.write(json.dumps(found).encode())
            elif word == "environment":
                change_environment(json.loads(rest))
                lines.write(b"true")


def change_environment(changes: dict[str, str | None]) -> None:
    """Set these variables for this process and those it starts; None takes one away."""
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def load_ipython_extension(shell: Shell) -> None:
    """IPython's entry point for extensions."""
    limit_output(shell)
    magics.register(shell)
    refuse_quietly(shell)
    address = os.environ.get(SOCKET_VARIABLE)
    if not address:
        return
    answering = Answering(shell, address)
    walk = "\t".join(["", "main", "0", "", "start", os.urandom(32).hex()])
    answering.answer(f"awake {walk}\n".encode())
    answering.start()
    Inquiries(shell, f"{address}.questions").start()

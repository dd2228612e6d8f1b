"""One action on an effects server at a time, cut into by a rollback, a fork, or a pause."""

from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Literal

from tests.support.effects_server import FIRST_CREDENTIAL, Attempt, EffectsServer
from tests.support.live_kernel import LiveKernel, wait_until

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.ledger import Decision, Entry, EntryKind, OutcomeState
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.lineage.journal import Journal

Way = Literal["rollback", "fork", "resume"]
Trouble = Literal["fine", "expired", "withdrawn"]
MAIN, READY = "main", "ready"
STATUS = {"expired": 401, "withdrawn": 403}
REFUSAL = {
    "expired": "401 the credential has expired",
    "withdrawn": "403 permission was withdrawn",
}

# The server's address is this host's loopback, so that programs do not ask the proxy by themselves.
PROGRAM = """
import os, threading, urllib.error, urllib.request
import branchpoint
os.environ.pop("no_proxy", None), os.environ.pop("NO_PROXY", None)
gates, said = {{}}, {{}}

class Gate(threading.Event):
    "Tells that somebody has come to it."
    def __init__(self):
        super().__init__()
        self.reached = threading.Event()
    def wait(self):
        self.reached.set()
        super().wait()

def opened():
    gate = Gate()
    gate.set()
    return gate

def send(name, *, key=True, retry=False, gate=opened()):
    headers = {{"Content-Length": "3"}}
    if key:
        headers["Idempotency-Key"] = name
    if retry:
        headers["Branchpoint-Unknown"] = "retry"
    def body():
        yield b"1"
        gate.wait()
        yield b"23"
    url = f"http://127.0.0.1:{port}/orders/{{name}}"
    request = urllib.request.Request(url, body(), headers, method="POST")
    try:
        reply = urllib.request.urlopen(request, timeout=100)
    except urllib.error.HTTPError as error:
        reply = error
    except OSError as error:
        return f"cut off: {{error!r}}"
    with reply:
        again = " replayed" if reply.headers["Branchpoint-Replayed"] else ""
        return f"{{reply.status}}{{again}} {{reply.read().decode()}}"

def order(name, gate):
    gate.wait()
    return send(name, key=False)

def once(name, *, retry=False, gate=opened()):
    try:
        return branchpoint.once(name, lambda: order(name, gate), retry=retry)
    except branchpoint.BranchpointError as error:
        return f"{{type(error).__name__}}: {{error}} {{error.hint}}"

def begin(how, name, is_open):
    gate = gates[name] = Gate()
    if is_open:
        gate.set()
    def run():
        try:
            said[name] = how(name, gate=gate)
        finally:
            gate.reached.set()
    threads[name] = threading.Thread(target=run, daemon=True)
    threads[name].start()
    gate.reached.wait()

def end(name):
    gates[name].set()
    threads[name].join()
    return said[name]

threads = {{}}
"""


@dataclass
class Edge:
    """A kernel that may reach the server, and holds its credential as a secret from a file."""

    kernel: LiveKernel
    server: EffectsServer
    home: Home
    credential: Path
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    def prepare(self) -> None:
        """Open the way out, and save the machine for all that follows."""
        port = self.server.port
        self.credential.write_text(FIRST_CREDENTIAL)
        self.kernel.run(f"%egress allow 127.0.0.1:{port} --private")
        self.kernel.run(f"%secrets add TOKEN --host 127.0.0.1:{port} --from file:{self.credential}")
        self.kernel.run(PROGRAM.format(port=port))
        self.kernel.run(f"%checkpoint {READY}")

    def name(self, *parts: str) -> str:
        """A name for an action that no other has."""
        return f"{'-'.join(parts)}-{next(self._numbers)}"

    def interrupt(self, way: Way, *, back: bool = False) -> tuple[str, str]:
        """Cut in: the branch in which to go on, and what the user was told.

        With `back` a fork is made from before the action, and not from this moment.
        """
        match way:
            case "rollback":
                return MAIN, self.kernel.run(f"%rollback {READY} --no-safety").text
            case "fork":
                name = self.name("fork")
                origin = f" --from {READY}" if back else ""
                return name, self.kernel.run(f"%fork 1 --names {name}{origin}").text
            case "resume":
                self.kernel.run("%pause")
                return MAIN, self.kernel.run("%resume").text

    def leave(self, branch: str) -> None:
        """Be done with a branch."""
        if branch != MAIN:
            self.kernel.run(f"%drop {branch}")

    def befall(self, trouble: Trouble) -> None:
        """Let it happen over there."""
        if trouble == "expired":
            self.server.credential = self.name("credential-of-another-day")
        elif trouble == "withdrawn":
            self.server.permitted = False

    def mend(self) -> None:
        """Renew the credential and give the permission back, as somebody outside the machine."""
        self.credential.write_text(self.server.credential)
        self.server.permitted = True

    def begin(self, how: str, name: str, *, is_open: bool = True) -> None:
        """Begin an action beside the cell; without `is_open` it stops short of sending it whole."""
        self.kernel.run(f"begin({how}, {name!r}, {is_open})")

    def value(self, code: str, branch: str = MAIN) -> str:
        """What an expression gives in a branch."""
        return self.finish(self.start(code, branch))

    def start(self, code: str, branch: str = MAIN) -> str:
        """Begin to work out an expression, and wait until it is being worked out."""
        marked = f"print('asking', flush=True); print('told', {code})"
        cell = self.kernel.start(marked if branch == MAIN else f"%%branch {branch}\n{marked}")
        self.kernel.wait_for(cell, lambda it: "asking" in it.text)
        return cell

    def finish(self, started: str) -> str:
        """What it gives."""
        cell = self.kernel.finish(started)
        assert cell.status == "ok", cell.text
        return cell.text.partition("told ")[2].strip()

    def line(self, name: str) -> str:
        """The newest line about an action that `%ledger` shows."""
        lines = [it for it in self.kernel.run("%ledger").lines if name in it]
        return lines[-1] if lines else ""

    def requests(self, name: str) -> list[Entry]:
        """What the ledger has of requests that were let out for an action, oldest first."""
        return [it for it in self._entries(name) if it.draft.kind is EntryKind.REQUEST]

    def runs(self, name: str) -> list[Entry]:
        """What the ledger has of functions that were run for it, oldest first."""
        return [it for it in self._entries(name) if it.draft.kind is EntryKind.ONCE]

    def _entries(self, name: str) -> list[Entry]:
        with Journal.read(self.home.database) as journal, Ledger.read(self.home.ledger) as ledger:
            entries = [it for session in journal.sessions() for it in ledger.entries(session.id)]
        allowed = [it for it in entries if it.draft.decision is Decision.ALLOWED]
        return [it for it in allowed if it.draft.key == name or it.draft.url.endswith(f"/{name}")]

    def check_agreement(self, name: str, *, effects: int = 1) -> list[OutcomeState]:
        """The ledger has what the server has, and no more was done; how each request ended."""

        def is_settled() -> bool:
            return all(entry.outcome is not None for entry in self.requests(name))

        assert wait_until(is_settled), "a request is still under way"
        attempts, entries = self.server.attempts(name), self.requests(name)
        states = [entry.outcome.state for entry in entries if entry.outcome is not None]
        told = [
            (it.outcome and it.outcome.status, it.outcome and it.outcome.state) for it in entries
        ]
        assert len(attempts) == len(entries), (attempts, told)
        for attempt, (status, state) in zip(attempts, told, strict=True):
            assert status == attempt.status, (attempts, told)
            assert state in _states_of(attempt), (attempts, told)
        assert self.server.effects(name) == effects
        return states


def _states_of(attempt: Attempt) -> tuple[OutcomeState, ...]:
    """What is true to say of an attempt for whoever made it."""
    match attempt.status:
        case None | 503:
            return (OutcomeState.UNKNOWN, OutcomeState.ACCEPTED)
        case 401 | 403:
            return (OutcomeState.REFUSED,)
        case _:
            return (OutcomeState.DONE,)

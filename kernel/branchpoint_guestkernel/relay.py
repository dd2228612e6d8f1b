"""Carries whole messages between the host's port and the kernel's ZMQ sockets, in one loop.

    python -m branchpoint_guestkernel.relay --port FD_OR_PATH --connection FILE --control-fd N
        [--generation G]

guestd speaks to it over the control descriptor, a line each:

    <- ready
       once the kernel has answered and its output is known to arrive
    -> drain N
    <- drained M
       once the N messages of the host are with the kernel and all it had said is on the port; then
       the relay keeps quiet. Freeze the kernel first, or draining may never end.
    -> resume G
       frames carry G from now on; if G is new, counting restarts at 0. Also calls off a drain.
    -> run {"id": ..., "code": ..., "timeout_s": ...}
    <- ran {"id": ..., "status": "ok"|"error"|"timeout", "text": ...,
        "error": {"ename", "evalue", "traceback"}|null, "elapsed_ms": ...}
    <- failed TEXT
       an order it does not know

It ends when guestd closes the control descriptor.
"""

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import zmq

from branchpoint_guestkernel.backlog import Backlog
from branchpoint_guestkernel.port import Port
from branchpoint_guestkernel.replies import Replies
from branchpoint_guestkernel.runs import OWN_MARK, Runs
from branchpoint_guestkernel.sockets import KernelSockets, receive_nowait, send

HELD_BYTES = 8 * 1024 * 1024
# With more than this on its way one message may be so large that the guest has no room for a copy.
LARGE_BYTES = 4 * 1024 * 1024
ABSENT_WAIT_MS = 20
NUDGE_MS = 50
# libzmq's own thread reads ahead; a moment of silence means that it has nothing more for us.
SETTLE_MS = 2
MESSAGES_A_TURN = 32


class Orders:
    """guestd's end of the relay: lines in and out of a descriptor, each a word and the rest."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._rest = b""

    def read(self) -> list[tuple[str, str]] | None:
        """The orders that have arrived; None once guestd has closed its end."""
        data = os.read(self.descriptor, 1 << 20)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [(word, rest) for word, _, rest in (line.decode().partition(" ") for line in lines)]

    def say(self, word: str, rest: object = "") -> None:
        """Tell guestd. Blocks while it does not read."""
        data = memoryview(f"{word} {rest}".strip().encode() + b"\n")
        while data:
            data = data[os.write(self.descriptor, data) :]


class Relay:
    """The loop between one port and one kernel."""

    def __init__(
        self, port: Port, sockets: KernelSockets, orders: Orders, backlog: Backlog
    ) -> None:
        self._port = port
        self._sockets = sockets
        self._orders = orders
        self._backlog = backlog
        self._replies = Replies(backlog)
        self._runs = Runs(lambda frames: send(sockets.own_shell, frames), self._report_run)
        self._pollers: dict[tuple[bool, bool, bool, bool], zmq.Poller] = {}
        self._drain_at: int | None = None
        self._quiet = False
        self._nudge_at_s: float | None = None
        self._nudge_answered = False
        self._output_proven = False
        self._ready = False

    def run(self) -> None:
        """Carry messages until guestd closes the control descriptor."""
        self._send_nudge()
        while True:
            ready = self._wait()
            if self._orders.descriptor in ready and not self._obey():
                return
            if self._quiet:
                continue
            if self._port.absent or ready.get(self._port.descriptor, 0) & ~zmq.POLLOUT:
                self._take_from_host()
            self._take_from_kernel(ready)
            for parts in self._replies.due():
                self._port.put(parts)
            self._port.write()
            self._runs.expire()
            if not self._ready:
                self._greet()
            if self._drain_at is not None:
                self._drain()

    def _wait(self) -> dict[Any, int]:
        return dict(self._poller().poll(self._timeout_ms()))

    def _poller(self) -> zmq.Poller:
        full = self._port.waiting_bytes > HELD_BYTES
        state = (self._quiet, self._port.absent, bool(self._port.waiting_bytes), full)
        if state not in self._pollers:
            self._pollers[state] = self._make_poller(*state)
        return self._pollers[state]

    def _make_poller(self, *state: bool) -> zmq.Poller:
        quiet, absent, waiting, full = state
        poller = zmq.Poller()
        poller.register(self._orders.descriptor, zmq.POLLIN)
        if not quiet and not absent:
            poller.register(self._port.descriptor, zmq.POLLIN | (zmq.POLLOUT if waiting else 0))
        if not quiet and not full:
            for socket in (*self._sockets.channels.values(), self._sockets.own_shell):
                poller.register(socket, zmq.POLLIN)
        return poller

    def _timeout_ms(self) -> int | None:
        if self._quiet:
            return None
        if self._port.absent:
            return ABSENT_WAIT_MS
        deadlines = [
            self._runs.next_deadline_s(),
            self._replies.next_deadline_s(),
            self._nudge_at_s,
        ]
        waits = [at - time.monotonic() for at in deadlines if at is not None]
        return max(0, int(min(waits) * 1000) + 1) if waits else None

    def _take_from_host(self) -> None:
        for channel, *frames in self._port.read():
            send(self._sockets.channels[channel], frames)

    def _take_from_kernel(self, ready: dict[Any, int]) -> None:
        for channel, socket in self._sockets.channels.items():
            if socket not in ready:
                continue
            for _ in range(MESSAGES_A_TURN):
                large = self._backlog.waiting_bytes > LARGE_BYTES
                if (frames := receive_nowait(socket, copy=not large)) is None:
                    break
                if channel == b"iopub":
                    self._backlog.add_carried(sum(map(len, frames)))
                self._take_message(channel, frames)
        if self._sockets.own_shell in ready:
            while (frames := receive_nowait(self._sockets.own_shell)) is not None:
                self._nudge_answered = True
                with _passing_over():
                    self._runs.take_reply(frames)

    def _take_message(self, channel: bytes, frames: list[bytes]) -> None:
        if OWN_MARK in frames[1] and self._is_own(frames):
            return
        if channel == b"shell":
            self._replies.put([channel, *frames])
        else:
            self._port.put([channel, *frames])

    def _is_own(self, frames: list[bytes]) -> bool:
        """Whether a message about a request of guestd's own is for guestd alone."""
        self._output_proven = True
        with _passing_over():
            return self._runs.take_output([bytes(frame) for frame in frames])
        return True

    def _report_run(self, result: dict[str, Any]) -> None:
        self._orders.say("ran", json.dumps(result))

    def _send_nudge(self) -> None:
        self._nudge_answered = False
        self._nudge_at_s = None
        self._runs.ask("kernel_info_request", {})

    def _greet(self) -> None:
        # A subscription takes effect some time after connect: nudge until output arrives.
        if not self._nudge_answered:
            return
        if self._output_proven:
            self._ready = True
            self._nudge_at_s = None
            self._orders.say("ready")
        elif self._nudge_at_s is None:
            self._nudge_at_s = time.monotonic() + NUDGE_MS / 1000
        elif time.monotonic() >= self._nudge_at_s:
            self._send_nudge()

    def _obey(self) -> bool:
        orders = self._orders.read()
        for word, rest in orders or ():
            match word:
                case "drain":
                    self._drain_at = int(rest)
                case "resume":
                    self._port.renew(int(rest))
                    self._drain_at = None
                    self._quiet = False
                case "run":
                    self._runs.start(json.loads(rest))
                case _:
                    self._orders.say("failed", f"unknown order {word!r}")
        return orders is not None

    def _drain(self) -> None:
        """Fall quiet if all is through; else the loop goes on and this is tried again."""
        if self._port.received < (self._drain_at or 0) or self._port.waiting_bytes:
            return
        settle = zmq.Poller()
        for socket in (*self._sockets.channels.values(), self._sockets.own_shell):
            settle.register(socket, zmq.POLLIN)
        if not settle.poll(SETTLE_MS):
            self._quiet = True
            self._orders.say("drained", self._port.sent)


@contextlib.contextmanager
def _passing_over() -> Generator[None]:
    """What code says that guestd runs is the user's: what nobody can make out ends nothing."""
    with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError):
        yield


def open_port(place: str) -> int:
    """The port's descriptor: inherited, if `place` is a number, else the device of that path."""
    return int(place) if place.isdigit() else os.open(place, os.O_RDWR | os.O_NONBLOCK)


def main(arguments: list[str]) -> None:
    """Run the relay of this process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", required=True)
    parser.add_argument("--connection", required=True, type=Path)
    parser.add_argument("--control-fd", required=True, type=int)
    parser.add_argument("--generation", type=int, default=0)
    options = parser.parse_args(arguments)
    orders = Orders(options.control_fd)
    with contextlib.closing(KernelSockets(options.connection)) as sockets:
        port = Port(open_port(options.port), options.generation)
        Relay(port, sockets, orders, Backlog(options.connection)).run()


if __name__ == "__main__":
    main(sys.argv[1:])

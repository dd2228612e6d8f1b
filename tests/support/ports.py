"""Ports for what is started with a port: nobody else is given one of these meanwhile."""

import os
import random
import socket
from collections import deque
from contextlib import ExitStack
from pathlib import Path

_GIVEN_OUT = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST = 10_000
# Whoever is to have a port binds it only once it has started: until then it looks free.
_recent: deque[int] = deque(maxlen=100)


def free_port() -> int:
    """A port of the loopback that nobody has, and that nobody gets who asks for any."""
    (port,) = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """Several such, no two the same."""
    ports = _of_this_worker()
    found: list[int] = []
    with ExitStack() as taken:
        while len(found) < count:
            port = random.choice(ports)
            if port in _recent:
                continue
            probe = taken.enter_context(socket.socket())
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
            _recent.append(port)
    return found


def _of_this_worker() -> range:
    """Ports that the system gives nobody, and of these no two workers of pytest's the same."""
    first_given_out = int(_GIVEN_OUT.read_text().split()[0])
    below = max(first_given_out, _FIRST + 2000)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % workers
    return range(_FIRST + worker, below, workers)

"""Ports for what is started with a port: by chance nobody else is given one of these meanwhile."""

import random
import socket
from contextlib import ExitStack
from pathlib import Path

_GIVEN_OUT = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST = 10_000


def free_port() -> int:
    """A port of the loopback that nobody has, and that nobody gets who asks for any."""
    (port,) = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """Several such, no two the same."""
    first_given_out = int(_GIVEN_OUT.read_text().split()[0])
    below = max(first_given_out, _FIRST + 2000)
    found: list[int] = []
    with ExitStack() as taken:
        while len(found) < count:
            port = random.randrange(_FIRST, below)
            probe = taken.enter_context(socket.socket())
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    return found

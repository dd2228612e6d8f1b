"""What must be made new when a machine wakes: entropy, wall clock, host name, identity."""

import fcntl
import json
import os
import socket
import struct
import time
from pathlib import Path

# <linux/random.h>: _IOW('R', 0x03, int[2]) and _IO('R', 0x07).
_RNDADDENTROPY = 0x40085203
_RNDRESEEDCRNG = 0x5207

IDENTITY = Path("/run/branchpoint/identity.json")


class Waking:
    """Holds open what waking needs, so that it costs no lookups while the user's processes wait."""

    def __init__(self) -> None:
        self._random = os.open("/dev/urandom", os.O_WRONLY)

    def add_entropy(self, entropy: bytes) -> None:
        """Credit fresh bytes to the kernel's pool, and reseed from it at once.

        Without the second step, readers would go on with the key that every copy of this machine
        has.
        """
        block = struct.pack(f"ii{len(entropy)}s", 8 * len(entropy), len(entropy), entropy)
        fcntl.ioctl(self._random, _RNDADDENTROPY, block)
        fcntl.ioctl(self._random, _RNDRESEEDCRNG)

    @staticmethod
    def set_clock(host_time_s: float, asked_at_s: float, answered_at_s: float) -> None:
        """Step the wall clock to the host's; the monotonic clock is left alone.

        `host_time_s` was read by the host between the two monotonic instants given, so the error is
        at most half the time between them.
        """
        middle = (asked_at_s + answered_at_s) / 2
        time.clock_settime(time.CLOCK_REALTIME, host_time_s + time.monotonic() - middle)

    @staticmethod
    def take_identity(identity: dict[str, object]) -> None:
        """Become the incarnation the host says: its name for new processes, and the host name."""
        part = IDENTITY.with_suffix(".part")
        part.write_text(json.dumps(identity))
        part.replace(IDENTITY)
        socket.sethostname(host_name(str(identity.get("branch", "machine"))))


def host_name(branch: str) -> str:
    """A host name for a branch: letters, digits and hyphens, as RFC 1123 has it.

    >>> host_name("ridge_2"), host_name("Überblick"), host_name("...")
    ('ridge-2', 'berblick', 'machine')
    """
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in branch.lower())
    return plain.strip("-")[:63] or "machine"

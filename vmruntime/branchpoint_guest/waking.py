"""What must be made new when a machine wakes: entropy, wall clock, host name, identity."""

import fcntl
import os
import socket
import struct
import time

# <linux/random.h>: _IOW('R', 0x03, int[2]) and _IO('R', 0x07).
_RNDADDENTROPY = 0x40085203
_RNDRESEEDCRNG = 0x5207

IDENTITY = "/run/branchpoint/identity.json"


class Waking:
    """Holds open what waking needs, so that it costs no lookups while the user's processes wait."""

    def __init__(self) -> None:
        self._random = os.open("/dev/urandom", os.O_WRONLY)
        self._identity = os.open(IDENTITY, os.O_RDWR | os.O_CREAT, 0o644)

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

    def take_identity(self, identity: str, host_name: str) -> None:
        """Become the incarnation the host says: JSON for new processes to read, and the host name.

        Written in place, through an open descriptor: nobody can read half of it while the user's
        processes are frozen, and making and renaming a file cost 50 ms of emulated first-time work.
        """
        text = identity.encode()
        os.pwrite(self._identity, text, 0)
        os.ftruncate(self._identity, len(text))
        socket.sethostname(host_name)

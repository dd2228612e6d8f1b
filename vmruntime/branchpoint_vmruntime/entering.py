"""What each of our programs does first: whatever started it, what it stands on is sound.

Its standard streams are open, and text is UTF-8, in names of files and arguments as well.
"""

import os
import sys

_STANDARD_STREAMS = (0, 1, 2)


def enter() -> None:
    """Open what was closed; start over in UTF-8 where the locale has ASCII alone.

    To be called before anything else is opened. Started over, it is the same process.
    """
    open_standard_streams()
    _have_standard_files()
    if sys.getfilesystemencoding() == "ascii":
        # What the user said comes first otherwise: the first of two counts.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _have_standard_files() -> None:
    """Python has none for a stream that was closed as it began: whoever asks it would fail."""
    for stream, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = "w" if stream else "r"
            setattr(sys, name, open(stream, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def open_standard_streams() -> None:
    """See to it that none is closed.

    What is opened next would take the place of one that is, and a process started with it would
    have its own standard stream there instead.
    """
    for stream in _STANDARD_STREAMS:
        try:
            os.fstat(stream)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != stream:
                os.dup2(nowhere, stream)
                os.close(nowhere)
            os.set_inheritable(stream, True)  # noqa: FBT003

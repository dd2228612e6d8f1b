"""`branchpoint`: the program. What it can do is in `commands`, which takes a moment to import."""

import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, and say what the process is to end with."""
    if argv is not None:
        return _commands().run(argv, alone=False)
    # Where Control-C is ignored, as behind nohup, it stays so.
    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeded:
        # Nothing is begun while it imports, which takes seconds on a busy host: it may just end.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    commands = _commands()
    try:
        if heeded:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return commands.run(sys.argv[1:], alone=True)
    except KeyboardInterrupt:
        return commands.INTERRUPTED


def _commands() -> Any:
    return import_module("branchpoint_cli.commands")


if __name__ == "__main__":
    sys.exit(main())

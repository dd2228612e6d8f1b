"""Starts guestd.

Run as a file, by path, since no site packages are set up for the first process.
"""

import sys
from pathlib import Path

_LIBRARY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(_LIBRARY))

from branchpoint_guest.guestd import main  # noqa: E402

main(_LIBRARY)

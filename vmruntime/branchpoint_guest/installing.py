"""What of ours the user's processes find: packages to import, and the command `branchpoint`."""

import sys
from pathlib import Path

_COMMAND = Path("/usr/local/bin/branchpoint")
_COMMAND_TEXT = """#!/usr/bin/python3 -IS
import sys
sys.path.insert(0, "{library}")
from branchpoint.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def install(library: Path) -> None:
    """Put both in place, without an environment variable for all to see."""
    minor = sys.version_info.minor
    folder = Path(f"/usr/local/lib/python3.{minor}/dist-packages")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "branchpoint.pth").write_text(f"{library}\n")
    _COMMAND.parent.mkdir(parents=True, exist_ok=True)
    _COMMAND.write_text(_COMMAND_TEXT.format(library=library))
    _COMMAND.chmod(0o755)

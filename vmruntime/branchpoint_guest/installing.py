"""What of ours the user's processes find: packages to import, the command, whom to trust."""

import sys
from pathlib import Path

_COMMAND = Path("/usr/local/bin/branchpoint")
_COMMAND_TEXT = """#!/usr/bin/python3 -IS
import sys
sys.path.insert(0, "{library}")
from branchpoint.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
_APT_TRUST = 'Acquire::https::CaInfo "/run/branchpoint/ca.pem";\n'


def install(library: Path) -> None:
    """Put it in place, without an environment variable for all to see."""
    trust(Path("/"))
    minor = sys.version_info.minor
    folder = Path(f"/usr/local/lib/python3.{minor}/dist-packages")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "branchpoint.pth").write_text(f"{library}\n")
    _COMMAND.parent.mkdir(parents=True, exist_ok=True)
    _COMMAND.write_text(_COMMAND_TEXT.format(library=library))
    _COMMAND.chmod(0o755)


def trust(root: Path) -> None:
    """Begin with the image's certificates where the host may add the session's to them."""
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    if not bundle.exists():
        return
    trusted = root / "run/branchpoint/ca.pem"
    trusted.write_bytes(bundle.read_bytes())
    trusted.chmod(0o644)
    # For programs that heed none of the variables, such as wget.
    bundle.unlink()
    bundle.symlink_to("../../../run/branchpoint/ca.pem")
    # apt heeds no variable for this.
    (root / "etc/apt/apt.conf.d").mkdir(parents=True, exist_ok=True)
    (root / "etc/apt/apt.conf.d/99branchpoint").write_text(_APT_TRUST)

"""What every machine of one size stands on.

Emulator, image, templates, and the facts that bind a checkpoint.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from branchpoint_vmruntime.spec import Emulator, MachineSize
from branchpoint_vmruntime.store import MachineFacts

KERNEL_ARGV = (
    "python3",
    "-Xfrozen_modules=off",
    "-m",
    "ipykernel_launcher",
    "-f",
    "{connection_file}",
    "--ext=branchpoint_guestkernel.hook",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """Where the parts are. `initramfs_digest` names the guest code a cold boot starts.

    With `unconfigured` the image has Debian packages whose own scripts a cold boot runs.
    """

    emulator: Emulator
    size: MachineSize
    kernel: Path
    initramfs: Path
    initramfs_digest: str
    root: Path
    disk_template: Path
    overlay_template: Path
    facts: MachineFacts
    kernel_argv: tuple[str, ...] = KERNEL_ARGV
    unconfigured: bool = False

    @property
    def base_key(self) -> str:
        """A digest of all that decides how a base checkpoint turns out."""
        parts = {
            "facts": self.facts.key,
            "initramfs": self.initramfs_digest,
            "kernel": self.kernel_argv,
            "size": asdict(self.size),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

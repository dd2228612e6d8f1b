"""What every machine of one size stands on.

Emulator, image, templates, and the facts that bind a checkpoint.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from branchpoint_vmruntime.errors import IncompatibleError
from branchpoint_vmruntime.image.guest_image import BOUND_TO
from branchpoint_vmruntime.spec import Emulator, MachineSize
from branchpoint_vmruntime.store import Layer, MachineFacts

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

    `image_files` are the sha256 of what a saved machine needs of the image, as it came out here.
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
    image_files: Mapping[str, str] = field(default_factory=dict[str, str])
    kernel_argv: tuple[str, ...] = KERNEL_ARGV
    unconfigured: bool = False

    def require_loadable(self, facts: MachineFacts, base: Layer) -> None:
        """IncompatibleError naming what differs, if what was saved so cannot be loaded here.

        `base` is the layer it stands on. One in which the image is not noted is not compared.
        """
        self.facts.require_same(facts)
        noted = base.noted_image()
        other = [
            called
            for name, called in BOUND_TO.items()
            if noted and self.image_files and noted.get(name) != self.image_files.get(name)
        ]
        if other:
            raise IncompatibleError(
                f"image {facts.image[:12]} was made anew since the checkpoint was saved on it, and"
                f" came out otherwise: its {' and '.join(other)}"
                f" {'is' if len(other) == 1 else 'are'} not the same",
                hint=f"move {self.root.parent} away and import a file that was exported"
                " `--with-image` before, or start again from `%rollback base`",
            )

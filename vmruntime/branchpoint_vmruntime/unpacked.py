"""Programs out of the distribution's packages, unpacked for a user who may not install them."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.apt import HOST_STATUS, open_host_apt
from branchpoint_vmruntime.image.progress import Progress
from branchpoint_vmruntime.image.tree import Tree

LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = "ld-linux-x86-64.so.2"


@dataclass(frozen=True, slots=True)
class UnpackedTools:
    """The programs in one folder; whole or not there."""

    folder: Path

    @property
    def root(self) -> Path:
        """The tree the packages were unpacked into."""
        return self.folder / "root"

    @property
    def share(self) -> Path:
        """Where QEMU's firmware is."""
        return self.root / "usr/share/qemu"

    def program(self, name: str) -> Path | None:
        """The program's file, or None if it was not unpacked."""
        for folder in ("usr/bin", "usr/sbin"):
            if (self.root / folder / name).exists():
                return self.root / folder / name
        return None

    def command(self, name: str) -> tuple[str, ...] | None:
        """The start of a command line: the program with the libraries unpacked beside it."""
        program = self.program(name)
        if program is None:
            return None
        ours = self.root / LIBRARIES
        # A C library of another version than its loader does not start: take both from one place.
        loader = ours / LOADER if (ours / LOADER).exists() else Path("/lib64") / LOADER
        libraries = f"{ours}:/usr/lib/x86_64-linux-gnu:/lib/x86_64-linux-gnu"
        # QEMU looks for modules (in Debian's 7.2 emulation is one) beside the program that was
        # started: the loader. env gives way to the loader, so it is no process of its own.
        modules = ("/usr/bin/env", f"QEMU_MODULE_DIR={ours / 'qemu'}")
        return (*modules, str(loader), "--library-path", libraries, str(program))


def unpack_tools(home: Home, packages: Sequence[str], progress: Progress) -> None:
    """Download the packages and what the host lacks of what they need, and unpack them."""
    apt = open_host_apt(home.cache / "apt-host", status=HOST_STATUS)
    debs = apt.download(packages, advance=progress.advance)
    part = home.tools / "root.part"
    shutil.rmtree(part, ignore_errors=True)
    tree = Tree.create(part)
    for deb in debs:
        tree.unpack(deb)
    final = UnpackedTools(home.tools).root
    shutil.rmtree(final, ignore_errors=True)
    part.rename(final)
    shutil.rmtree(apt.folder, ignore_errors=True)

"""Homes for tests, furnished from another so that none of them boots or builds anything."""

import contextlib
import shutil
import subprocess

from branchpoint_vmruntime import Manifest
from branchpoint_vmruntime.errors import UnknownNameError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import CheckpointId
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.store import Layer, MachineFacts


def lend_images(lender: Home, borrower: Home) -> None:
    """Give a home another's images, the tools unpacked there and what was found out of this host.

    Images are never written once they are made, so a link will do.
    """
    lend_tools(lender, borrower)
    borrower.images.symlink_to(lender.images.resolve())
    if lender.cache.exists():
        shutil.copytree(lender.cache, borrower.cache, ignore=shutil.ignore_patterns("apt-*"))


def lend_tools(lender: Home, borrower: Home) -> None:
    """Give a home the programs unpacked in another: QEMU, where it is not installed."""
    borrower.root.mkdir(mode=0o700, exist_ok=True)
    if lender.tools.exists():
        borrower.tools.symlink_to(lender.tools.resolve())


def lend_base(lender: Home, borrower: Home) -> None:
    """Give a home another's newest base checkpoint, files and record; nothing, if it has none.

    Of machines of the usual size: whoever needs another boots it.
    """
    borrower.ensure()
    kept = borrower.layers / "base"
    kept.mkdir(mode=0o700, exist_ok=True)
    with (
        contextlib.suppress(UnknownNameError),
        Journal.read(lender.database) as theirs,
        Journal.open(borrower.database) as ours,
    ):
        folders = lender.layers / "base"
        names = [CheckpointId(folder.name) for folder in folders.iterdir()]
        known = [record for name in names if (record := theirs.checkpoint(name))]
        bases = [base for base in known if _is_usual(Layer(folders / base.id).facts())]
        if bases:
            newest = max(bases, key=lambda base: base.created_at)
            # cp, because Python's copy would fill the holes: a gigabyte instead of a quarter.
            subprocess.run(["cp", "-r", "--sparse=always", folders / newest.id, kept], check=True)
            ours.add_checkpoint(newest, advance=None)


def _is_usual(facts: MachineFacts) -> bool:
    usual = Manifest().size
    return (facts.memory_mib, facts.vcpus) == (usual.memory_mib, usual.vcpus)

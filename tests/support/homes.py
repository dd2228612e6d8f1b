"""Homes for tests, furnished from another so that none of them boots or builds anything."""

import asyncio
import contextlib
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from branchpoint_vmruntime import Manifest, Runtime
from branchpoint_vmruntime.base import base_key
from branchpoint_vmruntime.errors import DamagedError, UnknownNameError
from branchpoint_vmruntime.foundation import Foundation
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.store import Layer


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
    """Give a home the base checkpoint that new sessions of another stand on; nothing without one.

    Whoever needs another boots it: of a machine of another size, or with another kernel.
    """
    borrower.ensure()
    kept = borrower.layers / "base"
    kept.mkdir(mode=0o700, exist_ok=True)
    with (
        contextlib.suppress(UnknownNameError),
        Journal.read(lender.database) as theirs,
        Journal.open(borrower.database) as ours,
    ):
        base = theirs.base(key_of_now(lender))
        if base is not None and _can_be_read(folder := lender.layers / "base" / base.id):
            # cp, because Python's copy would fill the holes: a gigabyte instead of a quarter.
            subprocess.run(["cp", "-r", "--sparse=always", folder, kept], check=True)
            ours.add_checkpoint(base, advance=None)


def key_of_now(home: Home) -> str:
    """The key of that base. The home itself is not opened for it: who opens one sweeps it."""
    with TemporaryDirectory(prefix="bp-") as folder:
        furnished = Home(Path(folder) / "home", Path(folder) / "run")
        lend_images(home, furnished)
        return base_key(asyncio.run(_usual_foundation(furnished)))


async def _usual_foundation(home: Home) -> Foundation:
    async with Runtime(home) as runtime:
        return await runtime.foundation(Manifest())


def _can_be_read(folder: Path) -> bool:
    with contextlib.suppress(DamagedError):
        Layer(folder).facts()
        return Layer(folder).memory.exists()
    return False

"""The programs machines and images need: found, installed, or unpacked into our home."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.errors import ImageBuildError, MissingToolError, OldToolError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.command import run_command
from branchpoint_vmruntime.image.progress import Progress
from branchpoint_vmruntime.unpacked import UnpackedTools, unpack_tools

OLDEST_QEMU = (7, 2, 0)
PACKAGES = ("qemu-system-x86", "qemu-utils", "e2fsprogs")
INSTALL_COMMAND = f"apt-get install --no-install-recommends {' '.join(PACKAGES)}"
# Ordinary users have no sbin on their path, but mke2fs needs no rights.
SEARCH_PATH = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_VERSION_LINE = re.compile(r"version (\d+)\.(\d+)\.(\d+)([^\n]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class QemuProgram:
    """The emulator. `build` tells builds of one version apart: saved machines are bound to it."""

    argv_prefix: tuple[str, ...]
    version: tuple[int, int, int]
    build: str
    firmware_args: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Every program the runtime starts on the host."""

    qemu: QemuProgram
    qemu_img: tuple[str, ...]
    mke2fs: tuple[str, ...]


def find_tools(home: Home) -> Tools:
    """The tools as they are now; MissingToolError names what is not there or too old."""
    unpacked = UnpackedTools(home.tools)
    qemu = _find_qemu(unpacked)
    qemu_img = _find("qemu-img", unpacked)
    mke2fs = _find("mke2fs", unpacked)
    if qemu_img is None:
        raise _missing("qemu-img")
    if mke2fs is None:
        raise _missing("mke2fs")
    return Tools(qemu=qemu, qemu_img=qemu_img, mke2fs=mke2fs)


def ensure_tools(home: Home, progress: Progress) -> Tools:
    """The tools; those that are not there are installed, or unpacked for this user alone."""
    try:
        return find_tools(home)
    except OldToolError:
        # Installing would not help: what the distribution has is what is there.
        raise
    except MissingToolError as error:
        if os.environ.get("BRANCHPOINT_QEMU"):
            raise
        missing = error
    progress.step("QEMU and tools")
    become_root = root_prefix()
    if become_root is not None:
        _install(become_root)
    else:
        _unpack(home, missing, progress)
    tools = find_tools(home)
    progress.done(f"QEMU {'.'.join(map(str, tools.qemu.version))}")
    return tools


def root_prefix() -> tuple[str, ...] | None:
    """What to put before a command to run it as root without being asked; None if we cannot."""
    if os.geteuid() == 0:
        return ()
    sudo = shutil.which("sudo")
    if sudo is None:
        return None
    asked = subprocess.run([sudo, "-n", "true"], check=False, capture_output=True)
    return (sudo, "-n") if asked.returncode == 0 else None


def _install(become_root: Sequence[str]) -> None:
    # A host that has just come up installs its updates, and would refuse at once.
    apt_get = [*become_root, "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
    try:
        run_command([*apt_get, "update"], purpose="fetch the package lists")
        run_command(
            [*apt_get, "-y", "install", "--no-install-recommends", *PACKAGES],
            purpose="install QEMU",
        )
    except ImageBuildError as error:
        raise MissingToolError(str(error), hint=f"run as root: {INSTALL_COMMAND}") from error


def _unpack(home: Home, missing: MissingToolError, progress: Progress) -> None:
    try:
        unpack_tools(home, PACKAGES, progress)
    except ImageBuildError as error:
        raise MissingToolError(
            f"{missing}, and it could not be unpacked for this user: {error}",
            hint=f"have this run as root: {INSTALL_COMMAND}",
        ) from error


def _find_qemu(unpacked: UnpackedTools) -> QemuProgram:
    named = os.environ.get("BRANCHPOINT_QEMU")
    if named:
        argv: tuple[str, ...] | None = (named,)
        firmware = _firmware(Path("/usr/share/qemu"), named=False)
    elif (installed := _which("qemu-system-x86_64")) is not None:
        argv = (str(installed),)
        firmware = _firmware(Path("/usr/share/qemu"), named=False)
    else:
        argv = unpacked.command("qemu-system-x86_64")
        firmware = _firmware(unpacked.share, named=True)
    if argv is None:
        raise _missing("qemu-system-x86_64")
    version, build = _read_version(argv)
    if version < OLDEST_QEMU:
        raise OldToolError(
            f"QEMU {'.'.join(map(str, version))} at {argv[-1]} is too old: 7.2 or newer is needed",
            hint=f"install a newer one (Debian 12 has 7.2): {INSTALL_COMMAND}",
        )
    return QemuProgram(argv_prefix=argv, version=version, build=build, firmware_args=firmware)


def _read_version(argv: Sequence[str]) -> tuple[tuple[int, int, int], str]:
    try:
        said = run_command([*argv, "--version"], purpose=f"run {argv[-1]}").decode(errors="replace")
    except ImageBuildError as error:
        raise MissingToolError(
            f"QEMU does not run: {error}", hint=f"run as root: {INSTALL_COMMAND}"
        ) from error
    parsed = parse_version(said)
    if parsed is None:
        raise MissingToolError(f"{argv[-1]} does not say which version of QEMU it is")
    return parsed


def parse_version(said: str) -> tuple[tuple[int, int, int], str] | None:
    """The version and the build in the output of `qemu-system-x86_64 --version`.

    >>> parse_version("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)")
    ((7, 2, 22), '7.2.22 (Debian 1:7.2+dfsg-7)')
    """
    match = _VERSION_LINE.search(said)
    if match is None:
        return None
    major, minor, micro = (int(match[index]) for index in (1, 2, 3))
    return (major, minor, micro), f"{match[1]}.{match[2]}.{match[3]}{match[4].rstrip()}"


def _firmware(share: Path, *, named: bool) -> tuple[str, ...]:
    folder = ("-L", str(share)) if named else ()
    # qboot starts a microVM a tenth of a second sooner than the firmware that is the default.
    return (*folder, "-bios", "qboot.rom") if (share / "qboot.rom").exists() else folder


def _find(name: str, unpacked: UnpackedTools) -> tuple[str, ...] | None:
    installed = _which(name)
    return (str(installed),) if installed else unpacked.command(name)


def _which(name: str) -> Path | None:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SEARCH_PATH])
    found = shutil.which(name, path=path)
    return Path(found) if found else None


def _missing(name: str) -> MissingToolError:
    return MissingToolError(
        f"{name} is not on this host", hint=f"run branchpoint setup, or as root: {INSTALL_COMMAND}"
    )

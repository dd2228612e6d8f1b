"""What this host has, what follows from it for machines, and what to do about it."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum

from branchpoint_vmruntime import host
from branchpoint_vmruntime.accelerator import DEVICE, choose_accelerator, why_closed
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.guest_image import GuestImage, find_image
from branchpoint_vmruntime.image.recipe import Recipe
from branchpoint_vmruntime.tools import INSTALL_COMMAND, Tools, find_tools, root_prefix

SETUP = "run: branchpoint setup"
GIB = 1 << 30


class Status(StrEnum):
    """How a finding bears on machines."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at: what it is, what follows, and what to do (nothing, if all is well)."""

    name: str
    status: Status
    what: str
    follows: str = ""
    action: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Everything looked at, in the order it matters."""

    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether machines can run: nothing is bad."""
        return all(finding.status is not Status.BAD for finding in self.findings)

    def as_json(self) -> str:
        """The same for programs."""
        return json.dumps({"healthy": self.healthy, **asdict(self)}, indent=2)


def examine(home: Home, *, has_base: Callable[[], bool] | None = None) -> Diagnosis:
    """Look at everything; `has_base` tells whether the store has a base checkpoint."""
    findings = [
        Finding(name="host", status=Status.OK, what=f"{host.distribution()}, {host.cpu_model()}"),
        examine_rights(root_prefix()),
        *examine_storage(home),
        examine_memory(host.memory()),
        examine_cores(host.cores()),
    ]
    tools = _tools(home, findings)
    image = _image(home, findings)
    findings.append(examine_device(why_closed(DEVICE)))
    findings.append(_accelerator(home, tools, image))
    if has_base is not None:
        findings.append(examine_base(present=has_base()))
    return Diagnosis(findings=tuple(findings))


def examine_rights(become_root: tuple[str, ...] | None) -> Finding:
    """Whether set-up may install packages."""
    if become_root is None:
        follows = "missing tools are unpacked for this user instead of installed"
        return Finding(
            name="rights", status=Status.OK, what=f"user {os.geteuid()}", follows=follows
        )
    what = "root" if not become_root else "may become root without being asked"
    return Finding(name="rights", status=Status.OK, what=what)


def examine_storage(home: Home) -> list[Finding]:
    """The home's file system: writable, large enough, able to share blocks."""
    try:
        home.ensure()
    except BranchpointError as error:
        return [Finding(name="home", status=Status.BAD, what=str(error), action=error.hint)]
    where = Finding(name="home", status=Status.OK, what=str(home.root))
    return [where, examine_space(host.free_bytes(home.root)), _reflink(home)]


def examine_space(free_bytes: int) -> Finding:
    """Whether checkpoints have room."""
    what = f"{free_bytes / GIB:.1f} GiB free"
    if free_bytes < 2 * GIB:
        return Finding(
            name="disk",
            status=Status.BAD,
            what=what,
            follows="the image and a first checkpoint do not fit",
            action="free some, or name another folder in BRANCHPOINT_HOME",
        )
    if free_bytes < 10 * GIB:
        return Finding(
            name="disk",
            status=Status.WARN,
            what=what,
            follows="room for a few dozen checkpoints",
            action="name a roomier folder in BRANCHPOINT_HOME for long sessions",
        )
    return Finding(name="disk", status=Status.OK, what=what)


def _reflink(home: Home) -> Finding:
    if host.has_reflink(home.root):
        return Finding(name="reflink", status=Status.OK, what="files can share blocks")
    return Finding(
        name="reflink",
        status=Status.OK,
        what="files cannot share blocks here",
        follows="a checkpoint's memory is copied when it is first forked from",
        action="XFS or btrfs under BRANCHPOINT_HOME would save that copy",
    )


def examine_memory(memory: host.Memory) -> Finding:
    """Whether machines have room beside what runs."""
    what = f"{memory.available_bytes / GIB:.1f} of {memory.total_bytes / GIB:.1f} GiB are available"
    if memory.available_bytes < 2 * GIB:
        return Finding(
            name="memory",
            status=Status.WARN,
            what=what,
            follows="a machine and a fork or two fit, not more",
            action="end other programs, or make machines smaller",
        )
    return Finding(name="memory", status=Status.OK, what=what)


def examine_cores(count: int) -> Finding:
    """How many machines can compute at once."""
    follows = f"{count} machines compute at full speed at once; more take turns"
    return Finding(name="cores", status=Status.OK, what=str(count), follows=follows)


def _tools(home: Home, findings: list[Finding]) -> Tools | None:
    try:
        tools = find_tools(home)
    except BranchpointError as error:
        action = error.hint or f"as root: {INSTALL_COMMAND}"
        findings.append(
            Finding(
                name="qemu",
                status=Status.BAD,
                what=str(error),
                follows="no machine can run",
                action=action,
            )
        )
        return None
    program = tools.qemu.argv_prefix[-1]
    findings.append(Finding(name="qemu", status=Status.OK, what=f"{tools.qemu.build} at {program}"))
    findings.append(Finding(name="qemu-img", status=Status.OK, what=tools.qemu_img[-1]))
    return tools


def _image(home: Home, findings: list[Finding]) -> GuestImage | None:
    try:
        image = find_image(home, Recipe.default())
    except BranchpointError as error:
        finding = Finding(name="image", status=Status.BAD, what=str(error), action=error.hint)
        findings.append(finding)
        return None
    if image is None:
        findings.append(
            Finding(
                name="image",
                status=Status.BAD,
                what="not made yet",
                follows="no machine can run",
                action=SETUP,
            )
        )
    else:
        findings.append(Finding(name="image", status=Status.OK, what=image.digest[:12]))
    return image


def examine_device(closed: str) -> Finding:
    """Whether KVM's device can be opened, which does not mean that it works."""
    if closed:
        return Finding(
            name="kvm-device",
            status=Status.WARN,
            what=closed,
            follows="machines are emulated",
            action="enable virtualisation on this host, or add this user to the group kvm",
        )
    return Finding(name="kvm-device", status=Status.OK, what=f"{DEVICE} opens")


def _accelerator(home: Home, tools: Tools | None, image: GuestImage | None) -> Finding:
    if tools is None or image is None:
        return Finding(
            name="accelerator",
            status=Status.WARN,
            what="not tried",
            follows="trying takes QEMU and the image",
            action=SETUP,
        )
    try:
        chosen = choose_accelerator(home, tools, image)
    except BranchpointError as error:
        return Finding(name="accelerator", status=Status.BAD, what=str(error), action=error.hint)
    if chosen.name == "kvm":
        return Finding(name="accelerator", status=Status.OK, what=f"kvm: {chosen.reason}")
    return Finding(
        name="accelerator",
        status=Status.WARN,
        what=f"tcg: {chosen.reason}",
        follows="Python runs 10 to 20 times slower than on the host",
        action="a host with working KVM runs machines at full speed",
    )


def examine_base(*, present: bool) -> Finding:
    """Whether sessions can start without booting."""
    if present:
        return Finding(name="base-checkpoint", status=Status.OK, what="saved")
    return Finding(
        name="base-checkpoint",
        status=Status.WARN,
        what="not saved yet",
        follows="the first session boots a machine",
        action=SETUP,
    )

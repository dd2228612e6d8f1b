"""The database dpkg would have written, so that dpkg and apt work in the guest."""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# dpkg keeps these in the status file instead, or not at all.
NOT_KEPT = frozenset({"control"})
EXECUTABLE = frozenset({"preinst", "postinst", "prerm", "postrm", "config"})


@dataclass(frozen=True, slots=True)
class UnpackedPackage:
    """One package as it was unpacked: its control files, and every path it has."""

    control: Mapping[str, bytes]
    paths: tuple[str, ...]

    @property
    def field_text(self) -> str:
        """The control file's text without blank lines."""
        text = self.control["control"].decode()
        return "\n".join(line for line in text.splitlines() if line.strip())

    def field(self, name: str) -> str:
        """One field of the control file, or nothing."""
        match = re.search(rf"^{name}:[ \t]*(.*)$", self.field_text, re.MULTILINE)
        return match[1].strip() if match else ""

    @property
    def name(self) -> str:
        """The package's name."""
        return self.field("Package")

    @property
    def info_name(self) -> str:
        """What its files in /var/lib/dpkg/info begin with."""
        if self.field("Multi-Arch") == "same":
            return f"{self.name}:{self.field('Architecture')}"
        return self.name


def write_database(
    root: Path, packages: Sequence[UnpackedPackage], *, unconfigured: Collection[str] = ()
) -> None:
    """Write /var/lib/dpkg; the packages' files are still as they were shipped.

    Those named in `unconfigured` have their own scripts still to run, in the guest.
    """
    admin = root / "var/lib/dpkg"
    for name in ("info", "updates", "triggers", "alternatives", "parts"):
        (admin / name).mkdir(parents=True, exist_ok=True)
    ordered = sorted(packages, key=lambda package: package.info_name)
    stanzas = (
        status_stanza(
            package,
            conffile_sums(root, package),
            state="unpacked" if package.name in unconfigured else "installed",
        )
        for package in ordered
    )
    (admin / "status").write_text("\n".join(stanzas))
    for name in ("available", "diversions", "statoverride", "lock", "lock-frontend"):
        (admin / name).write_bytes(b"")
    (admin / "arch").write_text("amd64\n")
    (admin / "info" / "format").write_text("1\n")
    for package in ordered:
        _write_info(admin / "info", package)
    _write_triggers(admin / "triggers", ordered)


def _write_info(folder: Path, package: UnpackedPackage) -> None:
    listing = "".join(f"{path}\n" for path in package.paths)
    (folder / f"{package.info_name}.list").write_text(listing)
    for name, content in sorted(package.control.items()):
        if name in NOT_KEPT:
            continue
        path = folder / f"{package.info_name}.{name}"
        path.write_bytes(content)
        path.chmod(0o755 if name in EXECUTABLE else 0o644)


def status_stanza(
    package: UnpackedPackage, conffiles: Sequence[tuple[str, str]], *, state: str = "installed"
) -> str:
    """The package's entry in the status file, configuration files and all."""
    first, *rest = package.field_text.splitlines()
    lines = [first, f"Status: install ok {state}", *rest]
    if conffiles:
        lines.append("Conffiles:")
        lines.extend(f" {path} {md5}" for path, md5 in conffiles)
    return "\n".join(lines) + "\n"


def conffile_sums(root: Path, package: UnpackedPackage) -> list[tuple[str, str]]:
    """The package's configuration files with the sums they were shipped with."""
    listed = package.control.get("conffiles", b"").decode().split()
    shipped = [(path, root / path.lstrip("/")) for path in listed]
    return [
        (path, hashlib.md5(place.read_bytes(), usedforsecurity=False).hexdigest())
        for path, place in shipped
        if place.is_file()
    ]


def _write_triggers(folder: Path, packages: Sequence[UnpackedPackage]) -> None:
    (folder / "Unincorp").write_bytes(b"")
    (folder / "Lock").write_bytes(b"")
    files: list[str] = []
    named: dict[str, list[str]] = {}
    for package in packages:
        for trigger, awaited in interests(package.control.get("triggers", b"").decode()):
            who = package.info_name + ("" if awaited else "/noawait")
            if trigger.startswith("/"):
                files.append(f"{trigger} {who}\n")
            else:
                named.setdefault(trigger, []).append(f"{who}\n")
    (folder / "File").write_text("".join(sorted(files)))
    for trigger, lines in named.items():
        (folder / trigger).write_text("".join(sorted(lines)))


def interests(triggers: str) -> list[tuple[str, bool]]:
    r"""What a triggers file is interested in, and whether the one who triggers waits for it.

    >>> interests("# by dh\ninterest-noawait ldconfig\nactivate x\n")
    [('ldconfig', False)]
    """
    found: list[tuple[str, bool]] = []
    for line in triggers.splitlines():
        words = line.split("#", 1)[0].split()
        if len(words) == 2 and words[0] in {"interest", "interest-await", "interest-noawait"}:
            found.append((words[1], not words[0].endswith("noawait")))
    return found

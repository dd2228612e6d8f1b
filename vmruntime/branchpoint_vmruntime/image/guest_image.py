"""A guest image on disk: where its files are, and what it came out as."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from branchpoint_vmruntime.errors import DamagedError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.recipe import Recipe

KERNEL = "vmlinuz"
ROOT = "root.ext4"
DISK = "disk-template.qcow2"
OVERLAY = "overlay-empty.qcow2"
PROBE = "probe.cpio"
FILES = (KERNEL, ROOT, DISK, OVERLAY, PROBE)
# What a saved machine cannot do without, and what that is called: the same recipe may come out as
# other bytes, once Debian has newer packages.
BOUND_TO = {KERNEL: "kernel", ROOT: "root file system", DISK: "disk template"}
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What an image came out as: versions by package, and the sha256 of each of its files.

    `python` and `debian` are what was asked for beyond the everyday.
    """

    digest: str
    debs: Mapping[str, str]
    wheels: tuple[str, ...]
    sha256: Mapping[str, str]
    python: tuple[str, ...] = ()
    debian: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestImage:
    """One image on disk. The root is read-only; machines' disks start from the templates."""

    digest: str
    folder: Path
    kernel: Path
    root: Path
    disk_template: Path
    overlay_template: Path
    probe: Path
    manifest: Manifest

    @property
    def bound_to(self) -> dict[str, str]:
        """The sha256 of those of its files that a saved machine cannot do without."""
        return {name: self.manifest.sha256[name] for name in BOUND_TO}


def find_image(home: Home, recipe: Recipe) -> GuestImage | None:
    """The recipe's image if it was made."""
    folder = home.images / recipe.digest
    return open_image(folder) if (folder / MANIFEST).exists() else None


def open_image(folder: Path) -> GuestImage:
    """The image in a folder; DamagedError if its manifest is not one."""
    try:
        raw = json.loads((folder / MANIFEST).read_text())
        manifest = Manifest(
            digest=str(raw["digest"]),
            debs={str(name): str(version) for name, version in raw["debs"].items()},
            wheels=tuple(str(wheel) for wheel in raw["wheels"]),
            sha256={str(name): str(digest) for name, digest in raw["sha256"].items()},
            python=tuple(str(name) for name in raw.get("python", ())),
            debian=tuple(str(name) for name in raw.get("debian", ())),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(
            f"the image in {folder} is damaged: {error}",
            hint=f"delete {folder} and run branchpoint setup",
        ) from error
    return GuestImage(
        digest=manifest.digest,
        folder=folder,
        kernel=folder / KERNEL,
        root=folder / ROOT,
        disk_template=folder / DISK,
        overlay_template=folder / OVERLAY,
        probe=folder / PROBE,
        manifest=manifest,
    )


def write_manifest(
    folder: Path, recipe: Recipe, versions: Mapping[str, str], more: Sequence[str] = ()
) -> None:
    """Seal a folder that holds every file of an image; `more` are its wheels beyond the lock's."""
    manifest = Manifest(
        digest=recipe.digest,
        debs=dict(sorted(versions.items())),
        wheels=tuple(wheel.split()[0] for wheel in (*recipe.wheels, *more)),
        sha256={name: file_digest(folder / name) for name in FILES},
        python=recipe.python,
        debian=recipe.debian,
    )
    (folder / MANIFEST).write_text(json.dumps(asdict(manifest), indent=1) + "\n")


def file_digest(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

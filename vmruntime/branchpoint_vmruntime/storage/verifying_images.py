"""Looks whether the images that bases stand on are there, and as they were made.

A base and all that descends from it can be loaded on the bytes it was booted on, and no others.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.errors import DamagedError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.guest_image import BOUND_TO, MANIFEST, GuestImage, open_image
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointId, CheckpointKind
from branchpoint_vmruntime.lineage.tree import Tree
from branchpoint_vmruntime.storage.digests import Damage, FileDigest, compared
from branchpoint_vmruntime.storage.sizes import layer_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedImage:
    """An image that is not what bases were booted on, with these and all that descends from them.

    `folder` is where it is, or was. `needed_by` has each base before its descendants.
    """

    folder: Path
    damages: tuple[Damage, ...]
    needed_by: tuple[Checkpoint, ...]
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoodOn:
    """An image, and the bases that stand on it."""

    folder: Path
    bases: tuple[Checkpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedInto:
    """What was found in an image: its damages, the bytes that were compared, itself if it is one.

    Another may have been made by its name since a base was booted on it: that is no damage of it.
    """

    of: StoodOn
    damages: tuple[Damage, ...]
    bytes: int
    image: GuestImage | None


def stood_on(home: Home, checkpoints: Sequence[Checkpoint]) -> list[StoodOn]:
    """The images that the bases among these stand on."""
    found: dict[str, list[Checkpoint]] = {}
    for base in checkpoints:
        if base.kind is CheckpointKind.BASE:
            try:
                image = layer_of(home, base).facts().image
            except DamagedError:
                # Which one it is nobody can tell; that is told as damage of the base.
                continue
            found.setdefault(image, []).append(base)
    return [
        StoodOn(folder=home.images / image, bases=tuple(bases)) for image, bases in found.items()
    ]


def look_into(of: StoodOn) -> LookedInto:
    """Read every file of an image that a machine may use, and compare it with its manifest."""
    try:
        image = open_image(of.folder)
    except DamagedError as error:
        missing = isinstance(error.__cause__, FileNotFoundError)
        place = of.folder if missing else of.folder / MANIFEST
        return _not_one(of, place, "it is missing" if missing else str(error))
    if image.digest != of.folder.name:
        return _not_one(of, of.folder / MANIFEST, f"it is of image {image.digest[:12]}")
    damages: list[Damage] = []
    read = 0
    for name, sha256 in image.manifest.sha256.items():
        path = of.folder / name
        try:
            size = path.stat().st_size
        except OSError:
            # What is wrong with it is told by whoever compares it.
            size = 0
        if (damage := compared(path, FileDigest(sha256=sha256, bytes=size))) is not None:
            damages.append(damage)
        read += size
    return LookedInto(of=of, damages=tuple(damages), bytes=read, image=image)


def damaged_images(
    home: Home, looked: LookedInto, tree: Tree, there: AbstractSet[CheckpointId]
) -> list[DamagedImage]:
    """What is to be told of an image; nothing, if all that stand on it can be loaded.

    `there` are the checkpoints that nobody has removed meanwhile.
    """
    bases = [base for base in looked.of.bases if base.id in there]
    folder = looked.of.folder
    found: list[DamagedImage] = []
    if looked.damages and bases:
        found.append(_told(folder, looked.damages, bases, tree))
    if looked.image is not None:
        # One that nothing descends from is in nobody's way: a new machine gets another.
        wanted = [base for base in bases if tree.children(base.id)]
        other = {base.id: _differing(home, base, looked.image) for base in wanted}
        if bound := [base for base in wanted if other[base.id]]:
            names = sorted({name for base in bound for name in other[base.id]})
            what = "it is not the one these were saved on: the image was made anew since"
            damages = tuple(Damage(path=folder / name, what=what) for name in names)
            found.append(_told(folder, damages, bound, tree))
    return found


def _differing(home: Home, base: Checkpoint, image: GuestImage) -> list[str]:
    try:
        noted = layer_of(home, base).noted_image()
    except DamagedError:
        return []
    here = image.manifest.sha256
    return [name for name in BOUND_TO if noted and noted.get(name) != here.get(name)]


def _not_one(of: StoodOn, path: Path, what: str) -> LookedInto:
    return LookedInto(of=of, damages=(Damage(path=path, what=what),), bytes=0, image=None)


def _told(
    folder: Path, damages: tuple[Damage, ...], bases: Sequence[Checkpoint], tree: Tree
) -> DamagedImage:
    needed_by = {each.id: each for base in bases for each in (base, *tree.descendants(base.id))}
    away = f"Move {folder} away, then import" if folder.exists() else "Import"
    return DamagedImage(
        folder=folder,
        damages=damages,
        needed_by=tuple(needed_by.values()),
        advice=f"none of these can be restored on it. {away} a file that was exported"
        " `--with-image` while it was whole. Without one, `branchpoint setup`, or a notebook that"
        " asks for its packages, makes it anew: the same if Debian has the same packages still",
    )

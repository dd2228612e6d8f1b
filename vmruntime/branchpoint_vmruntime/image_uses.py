"""The images of a home, and what was saved on each of them. Reads what is on disk, asks nobody."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime

from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.guest_image import MANIFEST, GuestImage, open_image
from branchpoint_vmruntime.image.recipe import Recipe
from branchpoint_vmruntime.lineage import Checkpoint, SessionId
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.storage.sizes import layer_of, on_disk


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUse:
    """A session with checkpoints that can be loaded on an image and on no other."""

    id: str
    key: str
    checkpoints: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageUse:
    """An image, what it has beyond the everyday, its bytes on disk, and what needs it.

    `bases` counts the base checkpoints that stand on it: one for each kind of machine.
    """

    digest: str
    default: bool
    python: tuple[str, ...]
    debian: tuple[str, ...]
    made_at: datetime
    disk_bytes: int
    bases: int
    sessions: tuple[SessionUse, ...]


def image_uses(home: Home) -> list[ImageUse]:
    """The images of a home, the default one first, then the oldest."""
    images = [open_image(path.parent) for path in home.images.glob(f"[!.]*/{MANIFEST}")]
    bases, sessions = _saved_on(home) if home.database.exists() else ({}, {})
    found = [
        _use(image, bases.get(image.digest, 0), tuple(sessions.get(image.digest, ())))
        for image in images
    ]
    return sorted(found, key=lambda use: (not use.default, use.made_at))


def _use(image: GuestImage, bases: int, sessions: tuple[SessionUse, ...]) -> ImageUse:
    made_s = (image.folder / MANIFEST).stat().st_mtime
    return ImageUse(
        digest=image.digest,
        default=image.digest == Recipe.default().digest,
        python=image.manifest.python,
        debian=image.manifest.debian,
        made_at=datetime.fromtimestamp(made_s, UTC),
        disk_bytes=on_disk(image.folder),
        bases=bases,
        sessions=sessions,
    )


def _saved_on(home: Home) -> tuple[dict[str, int], dict[str, list[SessionUse]]]:
    """Bases, and sessions with checkpoints, by the image they were saved on."""
    bases: Counter[str] = Counter()
    by_session: Counter[tuple[str, str]] = Counter()
    # Checkpoints of one key were saved on the same image: not every file has to be read.
    images: dict[str, str] = {}
    with Journal.read(home.database) as journal:
        keys = {session.id: session.key for session in journal.sessions()}
        for point in journal.every_checkpoint():
            image = _image_of(home, point, images)
            if point.session is None:
                bases[image] += 1
            elif SessionId(point.session) in keys:
                by_session[image, point.session] += 1
    sessions: defaultdict[str, list[SessionUse]] = defaultdict(list)
    for (image, session), count in by_session.items():
        key = keys[SessionId(session)]
        sessions[image].append(SessionUse(id=session, key=key, checkpoints=count))
    return bases, sessions


def _image_of(home: Home, point: Checkpoint, known: dict[str, str]) -> str:
    if point.key not in known:
        try:
            known[point.key] = layer_of(home, point).facts().image
        except BranchpointError:
            return ""
    return known[point.key]

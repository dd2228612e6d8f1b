"""Where checkpoints are on disk: one folder each, made aside and put in place in one step."""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from branchpoint_vmruntime.errors import DamagedError, IncompatibleError
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointId
from branchpoint_vmruntime.memory.flat import sync_file
from branchpoint_vmruntime.overlay import give_back_reserve

MEMORY = "memory"
DEVICES = "devices"
FACTS = "machine.json"
NONCE = "nonce"
IMAGE = "image.json"
DISK_PREFIX = "disk-"

_TSC_TOLERANCE = 0.001
_DIGEST_SHOWN = 12
_SAID_BY_MANIFEST = {"memory_mib": "machine", "vcpus": "machine", "image": "image"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """What a checkpoint is bound to. It can be restored only where all of these are the same.

    The TSC rate counts only when emulated, and to a tenth of a percent: measuring it is not more
    exact.
    """

    qemu: str
    accelerator: str
    cpu: str
    memory_mib: int
    vcpus: int
    image: str
    protocol: int
    tsc_khz: int

    @property
    def key(self) -> str:
        """A digest of all but the TSC rate."""
        stable = {name: value for name, value in asdict(self).items() if name != "tsc_khz"}
        return hashlib.sha256(json.dumps(stable, sort_keys=True).encode()).hexdigest()[:16]

    def require_same(self, saved: "MachineFacts") -> None:
        """IncompatibleError naming each difference, if what was saved cannot be loaded here."""
        names = [
            field.name
            for field in fields(self)
            if field.name != "tsc_khz" and getattr(saved, field.name) != getattr(self, field.name)
        ]
        different = [f"{it} was {_shown(saved, it)} and is {_shown(self, it)}" for it in names]
        drift = abs(saved.tsc_khz - self.tsc_khz) / max(self.tsc_khz, 1)
        if self.accelerator == "tcg" and drift > _TSC_TOLERANCE:
            different.append(f"tsc_khz was {saved.tsc_khz} and is {self.tsc_khz}")
        if different:
            raise IncompatibleError(
                "the checkpoint was saved by a different machine: " + "; ".join(different),
                hint=f"{_way_back(names)}, or start again from `%rollback base`",
            )


def _shown(facts: MachineFacts, name: str) -> str:
    value = str(getattr(facts, name))
    return value[:_DIGEST_SHOWN] if name == "image" else value


def _way_back(names: Sequence[str]) -> str:
    """How to load what differs in those facts alone."""
    if names and all(name in _SAID_BY_MANIFEST for name in names):
        said = " and ".join(f"`{it}`" for it in dict.fromkeys(_SAID_BY_MANIFEST[n] for n in names))
        return f"have {said} in branchpoint.yaml as when it was saved and restart the kernel"
    return "restore it where it was made"


@dataclass(frozen=True, slots=True)
class Layer:
    """A checkpoint's folder."""

    folder: Path

    @property
    def memory(self) -> Path:
        """The memory layer; for a base checkpoint the whole memory."""
        return self.folder / MEMORY

    @property
    def devices(self) -> Path:
        """The state of the devices."""
        return self.folder / DEVICES

    @property
    def disks(self) -> tuple[Path, ...]:
        """What was written to the disk since the parent, lowest overlay first.

        More than one where an attempt before this one sealed an overlay and then failed.
        """
        return tuple(sorted(self.folder.glob(f"{DISK_PREFIX}*.qcow2")))

    def link_disk(self, overlay: Path) -> None:
        """Take in an overlay that no longer changes."""
        (self.folder / f"{DISK_PREFIX}{len(self.disks):03}.qcow2").hardlink_to(overlay)

    def facts(self) -> MachineFacts:
        """What it was saved by."""
        try:
            return MachineFacts(**json.loads((self.folder / FACTS).read_bytes()))
        except (OSError, ValueError, TypeError) as error:
            raise _unreadable(self.folder / FACTS, error) from error

    @property
    def nonce(self) -> str:
        """What only the saved kernel knows.

        A kernel that answers with another is not the one that was saved.
        """
        try:
            return (self.folder / NONCE).read_text()
        except (OSError, ValueError) as error:
            raise _unreadable(self.folder / NONCE, error) from error

    def noted_image(self) -> Mapping[str, str]:
        """The sha256 of the files of the image that a base was booted on, by their names.

        Nothing for one that was made before that was noted.
        """
        try:
            raw = json.loads((self.folder / IMAGE).read_bytes())
            return {str(name): str(sha256) for name, sha256 in raw.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError) as error:
            raise _unreadable(self.folder / IMAGE, error) from error

    def note_image(self, files: Mapping[str, str]) -> None:
        """Note what the image under a base came out as: its recipe may come out otherwise later."""
        (self.folder / IMAGE).write_text(json.dumps(dict(files), indent=1, sort_keys=True))

    def write_facts(self, facts: MachineFacts, nonce: str) -> None:
        """Note what it was saved by, and what its kernel answers when asked who it is."""
        (self.folder / FACTS).write_text(json.dumps(asdict(facts), indent=1))
        (self.folder / NONCE).write_text(nonce)


def _unreadable(path: Path, error: Exception) -> DamagedError:
    why = error.strerror if isinstance(error, OSError) else None
    return DamagedError(f"{path} cannot be read: {why or error}")


class LayerStore:
    """The checkpoints of one owner, each in a folder named by its id.

    What is being made ends in `.part`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def layer(self, checkpoint: CheckpointId) -> Layer:
        """Where a checkpoint is."""
        return Layer(self._folder / checkpoint)

    def of(self, checkpoint: Checkpoint) -> Layer:
        """Where one is that this owner has, or another: their folders are beside this one.

        A branch that was lent stands on what the session that had it has saved, and the reverse.
        """
        owner = checkpoint.session or self._folder.name
        return Layer(self._folder.parent / owner / checkpoint.id)

    def stage(self, checkpoint: CheckpointId) -> Layer:
        """A fresh folder to make it in."""
        folder = self._folder / f"{checkpoint}.part"
        folder.mkdir(mode=0o700)
        return Layer(folder)

    def publish(self, staged: Layer, checkpoint: CheckpointId) -> Layer:
        """Put a finished folder in place: after this it is there whole, before it is not there."""
        for file in staged.folder.iterdir():
            give_back_reserve(file)
            sync_file(file)
        sync_file(staged.folder)
        place = self._folder / checkpoint
        staged.folder.rename(place)
        try:
            sync_file(self._folder)
        except OSError:
            self.discard(Layer(place))
            raise
        return Layer(place)

    def discard(self, layer: Layer) -> None:
        """Remove a folder, whole or half made."""
        shutil.rmtree(layer.folder, ignore_errors=True)

    def sweep(self, known: set[CheckpointId]) -> list[Path]:
        """Remove what no record knows of: traces of an owner that ended in the middle."""
        stray = [p for p in self._folder.iterdir() if p.name not in known]
        for path in stray:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        return stray

"""Where branchpoint keeps its state on this host."""

import os
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.errors import StorageError

OWNER_ONLY = 0o700


@dataclass(frozen=True, slots=True)
class Home:
    """One user's state: `root` lasts, `run` is for sockets and locks that end with the login."""

    root: Path
    run: Path

    @classmethod
    def default(cls) -> "Home":
        """The home the environment names; nothing is made on disk yet."""
        root = _root_from_environment()
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        if os.environ.get("BRANCHPOINT_HOME") or not _usable_runtime_folder(runtime):
            # A home of its own gets run files of its own: two homes must not meet in one folder.
            return cls(root, root / "run")
        return cls(root, Path(runtime) / "branchpoint")

    @property
    def images(self) -> Path:
        """Guest images, a folder each, named by the digest of the recipe."""
        return self.root / "images"

    @property
    def layers(self) -> Path:
        """What checkpoints are made of."""
        return self.root / "layers"

    @property
    def flat(self) -> Path:
        """Materialised memory: a cache that may be deleted while no machine lives."""
        return self.root / "flat"

    @property
    def tools(self) -> Path:
        """Programs unpacked here because they could not be installed on the host."""
        return self.root / "tools"

    @property
    def cache(self) -> Path:
        """Downloads and remembered answers; may be deleted at any time."""
        return self.root / "cache"

    @property
    def live(self) -> Path:
        """Overlays and console logs of machines that live now."""
        return self.root / "live"

    @property
    def database(self) -> Path:
        """The lineage store."""
        return self.root / "lineage.db"

    @property
    def ledger(self) -> Path:
        """What machines did outside."""
        return self.root / "ledger.db"

    def session(self, session: str) -> Path:
        """What a session keeps of its edge: its authority, the placeholders in its machines."""
        return self.root / "sessions" / session

    def control(self, session: str) -> Path:
        """The socket at which the owner of a session is asked, while there is one."""
        return self.run / f"{session}.sock"

    def ensure(self) -> None:
        """Make every folder, closed to other users. StorageError if that cannot be."""
        for folder in (
            self.root,
            self.run,
            self.images,
            self.layers,
            self.flat,
            self.tools,
            self.cache,
            self.live,
        ):
            _make_private(folder)


def _root_from_environment() -> Path:
    named = os.environ.get("BRANCHPOINT_HOME", "")
    if named:
        return Path(named).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME", "")
    base = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    return base / "branchpoint"


def _usable_runtime_folder(runtime: str) -> bool:
    return runtime.startswith("/") and os.access(runtime, os.W_OK | os.X_OK)


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        # mkdir leaves an existing folder's mode alone, and the umask may take bits from a new one.
        folder.chmod(OWNER_ONLY)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError as error:
        raise StorageError(
            f"the folder {folder} cannot be used: {error.strerror or error}", hint=_HINT
        ) from error
    if not writable:
        raise StorageError(f"the folder {folder} cannot be written", hint=_HINT)


_HINT = "make it writable for this user, or name another folder in BRANCHPOINT_HOME"

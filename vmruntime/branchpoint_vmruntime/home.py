"""Where branchpoint keeps its state on this host."""

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.errors import StorageError

OWNER_ONLY = 0o700


@dataclass(frozen=True, slots=True)
class Home:
    """One user's state: `root` lasts, `run` is for sockets that end with who answers there."""

    root: Path
    run: Path

    @classmethod
    def default(cls) -> "Home":
        """The home the environment names; nothing is made on disk yet. StorageError without one."""
        root = _root_from_environment()
        # Found by whoever finds the home: a login's own folder is another by ssh, cron and sudo.
        return cls(root, root / "run")

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
    data = os.environ.get("XDG_DATA_HOME", "")
    try:
        if named:
            return Path(named).expanduser().absolute()
        base = Path(data) if data.startswith("/") else _home_of_user() / ".local" / "share"
    except RuntimeError as error:
        what = f"{named!r} in BRANCHPOINT_HOME" if named else "this user"
        raise StorageError(
            f"there is no home folder for {what}",
            hint="set HOME, or name a folder of this user's in BRANCHPOINT_HOME",
        ) from error
    return base / "branchpoint"


def _home_of_user() -> Path:
    if os.environ.get("HOME", "").startswith("/"):
        return Path.home()
    # Unset, or of no use: what the system knows of this user counts.
    try:
        known = Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError as error:
        raise RuntimeError from error
    if not known.is_absolute():
        raise RuntimeError
    return known


def _make_private(folder: Path) -> None:
    try:
        str(folder).encode()
    except UnicodeEncodeError as error:
        raise StorageError(
            f"the folder {str(folder)!r} cannot be used: its name is not UTF-8",
            hint="name another folder in BRANCHPOINT_HOME",
        ) from error
    try:
        try:
            folder.mkdir(mode=OWNER_ONLY, parents=True)
        except FileExistsError:
            if not folder.is_dir():
                raise
            # Closed to others it must be; whoever made it read-only has meant that.
            mode = stat.S_IMODE(folder.stat().st_mode)
            if mode & ~OWNER_ONLY:
                folder.chmod(mode & OWNER_ONLY)
        else:
            # The umask may have taken bits from it.
            folder.chmod(OWNER_ONLY)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError as error:
        raise StorageError(
            f"the folder {folder} cannot be used: {error.strerror or error}", hint=_HINT
        ) from error
    if not writable:
        raise StorageError(f"the folder {folder} cannot be written", hint=_HINT)


_HINT = "make it writable for this user, or name another folder in BRANCHPOINT_HOME"

"""What a guest image is made of. Pure: the digest of a recipe is the image's name."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from branchpoint_vmruntime.image.wanted import ImageSpec, project_name

GUEST_SUITE = "bookworm"
GUEST_PYTHON = "3.11"
LOCK_FILE = Path(__file__).with_name("requirements.lock")

# Raised whenever our own code begins to make another tree of the same recipe.
BUILDER = 3

WANTED_WHEELS = (
    "bash_kernel", "ipykernel>=7.4", "ipywidgets", "matplotlib", "numpy", "pandas", "pip", "tqdm",
)  # fmt: skip

BASE_PACKAGES = (
    "base-files", "base-passwd", "bash", "bsdutils", "coreutils", "dash", "debianutils",
    "diffutils", "dpkg", "findutils", "grep", "gzip", "hostname", "init-system-helpers",
    "libc-bin", "login", "mount", "ncurses-base", "ncurses-bin", "perl-base", "sed",
    "sysvinit-utils", "tar", "usr-is-merged", "util-linux",
)  # fmt: skip
EVERYDAY_PACKAGES = (
    "apt", "bzip2", "ca-certificates", "curl", "debian-archive-keyring", "file", "git", "gpgv",
    "iproute2", "iputils-ping", "less", "libpam-runtime", "lsof", "mawk", "nano",
    "netcat-openbsd", "openssl", "passwd", "procps", "psmisc", "python-is-python3", "python3",
    "python3-venv", "tzdata", "unzip", "wget", "xz-utils", "zip",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that decides what an image holds, but for what mirror and index give for a name.

    `python` and `debian` are what it has beyond the everyday.
    """

    suite: str = GUEST_SUITE
    packages: tuple[str, ...] = BASE_PACKAGES + EVERYDAY_PACKAGES
    kernel_package: str = "linux-image-cloud-amd64"
    initramfs_package: str = "busybox-static"
    wheels: tuple[str, ...]
    root_mib: int = 1536
    disk_mib: int = 16384
    builder: int = BUILDER
    python: tuple[str, ...] = ()
    debian: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The image's name: the same recipe has the same name on every host."""
        parts = asdict(self)
        # One without them is what it was before there were any: nobody builds it again.
        for name in ("python", "debian"):
            if not parts[name]:
                del parts[name]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @classmethod
    def default(cls) -> "Recipe":
        """The image every kernel uses unless its manifest says otherwise."""
        return cls.of(ImageSpec())

    @classmethod
    def of(cls, wanted: ImageSpec) -> "Recipe":
        """The image with the packages of a manifest; what every image has anyway does not count."""
        wheels = parse_lock(LOCK_FILE.read_text())
        locked = {project_name(line) for line in wheels}
        everyday = {*BASE_PACKAGES, *EVERYDAY_PACKAGES}
        return cls(
            wheels=wheels,
            python=tuple(name for name in wanted.python if name not in locked),
            debian=tuple(name for name in wanted.debian if name not in everyday),
        )


def parse_lock(text: str) -> tuple[str, ...]:
    r"""The requirements of a lock file, without comments.

    >>> parse_lock("# made by\na==1 --hash=sha256:00\n\n")
    ('a==1 --hash=sha256:00',)
    """
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))

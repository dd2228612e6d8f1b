"""An apt of our own: the host's programs and mirrors, with state, cache and suite apart."""

import re
import shutil
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.errors import ImageBuildError
from branchpoint_vmruntime.image.command import run_command
from branchpoint_vmruntime.image.sources import (
    Archive,
    Mirrors,
    debian_archives,
    parse_deb822,
    parse_one_line,
)

LOOK_EVERY_S = 0.2
HOST_STATUS = Path("/var/lib/dpkg/status")
MIRROR_HINT = (
    "check that the Debian mirror in /etc/apt is reachable (apt-get update), then set up again"
)
_URI_LINE = re.compile(r"^'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, order=True)
class Deb:
    """One package file as the archive describes it."""

    name: str
    version: str
    file: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PrivateApt:
    """apt-get for any user. `status` is what counts as installed: nothing, or what the host has."""

    folder: Path
    sources: str
    status: Path | None = None
    host_sources: bool = False

    @property
    def archives(self) -> Path:
        """Where downloaded package files are."""
        return self.folder / "archives"

    def update(self) -> None:
        """Fetch the package lists; ImageBuildError if a mirror is silent or its signature wrong."""
        self._prepare()
        # Without Error-Mode apt takes an unreachable mirror for a warning and ends with status 0.
        self._apt("update", "-o", "APT::Update::Error-Mode=any", purpose="fetch the package lists")

    def resolve(self, packages: Sequence[str]) -> tuple[Deb, ...]:
        """What would be installed for `packages`, sorted by name."""
        printed = self._apt(
            "install", "--print-uris", "--no-install-recommends",
            "-o", f"Dir::Cache::archives={self._empty}", *packages,
            purpose="resolve the guest's packages",
        )  # fmt: skip
        return tuple(sorted(parse_uris(printed.decode())))

    def download(
        self, packages: Sequence[str], *, advance: Callable[[float], None] | None = None
    ) -> tuple[Path, ...]:
        """Download `packages` and what they depend on; the files, sorted by name.

        `advance` hears now and then how far it is, 0 to 1.
        """
        debs = self.resolve(packages)
        total_bytes = sum(deb.size_bytes for deb in debs)
        words = ("install", "--download-only", "--no-install-recommends", *packages)
        with ThreadPoolExecutor(max_workers=1) as pool:
            fetching = pool.submit(self._apt, *words, purpose="download the packages")
            while wait([fetching], timeout=LOOK_EVERY_S).not_done:
                if advance is not None and total_bytes:
                    advance(min(1.0, self._fetched_bytes() / total_bytes))
            fetching.result()
        return tuple(self.archives / deb.file for deb in debs)

    def tidy(self, kept: Collection[Path]) -> None:
        """Remove all but those package files, which the next image need not fetch again."""
        for path in self.folder.iterdir():
            if path == self.archives:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        for path in self.archives.glob("*.deb"):
            if path not in kept:
                path.unlink()

    def _fetched_bytes(self) -> int:
        sizes = 0
        for path in self.archives.rglob("*.deb"):
            # apt moves a finished file away between our listing it and our looking at it.
            with suppress(FileNotFoundError):
                sizes += path.stat().st_size
        return sizes

    def download_only(self, package: str) -> Path:
        """Download one package without what it depends on."""
        printed = self._apt(
            "download", "--print-uris", package, purpose=f"find the package {package}"
        )
        (deb,) = parse_uris(printed.decode())
        self._apt("download", package, purpose=f"download {package}", folder=self.archives)
        return self.archives / deb.file

    @property
    def _empty(self) -> Path:
        return self.folder / "empty"

    @property
    def _config(self) -> Path:
        return self.folder / "apt.conf"

    def _prepare(self) -> None:
        for name in ("archives/partial", "empty/partial", "lists/partial", "etc"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").write_bytes(b"")
        (self.folder / "etc" / "private.sources").write_text(self.sources)
        status = self.status or self.folder / "status"
        sources = "/etc/apt/sources.list.d" if self.host_sources else str(self.folder / "etc")
        self._config.write_text(
            config_text(self.folder, status)
            + f'Dir::Etc::sourceparts "{sources}";\n'
            + ('Dir::Etc::sourcelist "/etc/apt/sources.list";\n' if self.host_sources else "")
            + host_acquire_config()
        )

    def _apt(self, *words: str, purpose: str, folder: Path | None = None) -> bytes:
        return run_command(
            ["apt-get", "-qq", "-y", *words],
            purpose=purpose,
            hint=MIRROR_HINT,
            environment={"APT_CONFIG": str(self._config)},
            folder=folder,
        )


def parse_uris(printed: str) -> list[Deb]:
    """The packages in the output of `apt-get --print-uris`.

    >>> parse_uris("'http://m/p/a/a_1%3a2-3_amd64.deb' a_1%3a2-3_amd64.deb 10 SHA256:ab")
    [Deb(name='a', version='1:2-3', file='a_1%3a2-3_amd64.deb', size_bytes=10)]
    """
    debs: list[Deb] = []
    for match in _URI_LINE.finditer(printed):
        name, version, _ = match["file"].rsplit("_", 2)
        debs.append(
            Deb(
                name=name,
                version=version.replace("%3a", ":"),
                file=match["file"],
                size_bytes=int(match["size"]),
            )
        )
    return debs


def config_text(folder: Path, status: Path) -> str:
    """An apt configuration whose every writable place lies in `folder`."""
    options = {
        "Dir::State": folder,
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": status,
        "Dir::State::extended_states": folder / "extended_states",
        "Dir::Cache": folder,
        "Dir::Cache::archives": folder / "archives",
        "Dir::Etc::main": "/dev/null",
        # The host's hooks and pins are for the host; proxies and the like are copied below.
        "Dir::Etc::parts": folder / "empty",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": folder / "empty",
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Log": folder,
        "Debug::NoLocking": "true",
        # As root apt would download as the user _apt, who may not enter our folder.
        "APT::Sandbox::User": "root",
        "APT::Architecture": "amd64",
        "APT::Get::AllowUnauthenticated": "false",
        "Acquire::Languages": "none",
        "Acquire::GzipIndexes": "true",
        "Acquire::Retries": "3",
    }
    lines = [f'{name} "{value}";' for name, value in options.items()]
    return "\n".join([*lines, 'APT::Architectures { "amd64"; };', ""])


def host_acquire_config() -> str:
    """How the host fetches packages: its proxies, checks and limits."""
    dump = run_command(["apt-config", "dump"], purpose="read the host's apt configuration")
    unwanted = ("Acquire::IndexTargets", "Acquire::Languages", "Acquire::Changelogs")
    lines = [
        line
        for line in dump.decode().splitlines()
        if line.startswith("Acquire::") and not line.startswith(unwanted)
    ]
    return "\n".join([*lines, ""])


def host_archives(etc: Path = Path("/etc/apt")) -> list[Archive]:
    """Every archive the host's apt configuration names."""
    found: list[Archive] = []
    parts = etc / "sources.list.d"
    listed = sorted(parts.iterdir()) if parts.is_dir() else []
    for path in [etc / "sources.list", *listed]:
        if path.suffix == ".sources":
            found.extend(parse_deb822(path.read_text()))
        elif path.suffix == ".list" and path.exists():
            found.extend(parse_one_line(path.read_text()))
    return found


def open_apt(folder: Path, suite: str) -> tuple[PrivateApt, Mirrors]:
    """An updated apt for `suite` from the first of the host's mirrors that has it."""
    mains, securities = debian_archives(host_archives())
    if not mains:
        raise ImageBuildError(
            "the host's apt configuration names no Debian archive",
            hint="add a Debian mirror to /etc/apt/sources.list.d and run the set-up again",
        )
    security = securities[0] if securities else None
    failure: ImageBuildError | None = None
    for main in mains:
        mirrors = Mirrors(main, security)
        apt = PrivateApt(folder, mirrors.sources(suite))
        try:
            apt.update()
        except ImageBuildError as error:
            failure = failure or error
            continue
        return apt, mirrors
    raise failure or ImageBuildError("no mirror was tried")


def open_host_apt(folder: Path, *, status: Path) -> PrivateApt:
    """An updated apt that sees what the host's own sees, but writes nothing of the host's."""
    apt = PrivateApt(folder, "", status, host_sources=True)
    apt.update()
    return apt

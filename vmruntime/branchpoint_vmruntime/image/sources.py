"""Which Debian archives a host's apt configuration names, and the same for another suite. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

CODENAMES = frozenset(
    {"bullseye", "bookworm", "trixie", "forky", "sid", "stable", "testing", "unstable", "oldstable"}
)
GUEST_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_ONE_LINE = re.compile(r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<rest>.+)$")


@dataclass(frozen=True, slots=True)
class Archive:
    """One archive a host uses: where it is, and how its signature is told to be checked."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str = ""
    trusted: str = ""

    @property
    def is_security(self) -> bool:
        """Whether it is an archive of security updates."""
        return any(suite.endswith(("-security", "/updates")) for suite in self.suites)


def parse_one_line(text: str) -> Iterator[Archive]:
    """The binary archives in one-line format.

    >>> [a.uri for a in parse_one_line("deb [arch=amd64] http://mirror/debian trixie main")]
    ['http://mirror/debian']
    """
    for line in text.splitlines():
        match = _ONE_LINE.match(line.split("#", 1)[0].strip())
        if match is None:
            continue
        pairs = (word.partition("=") for word in (match["options"] or "").split())
        options = {key.lower(): value for key, _, value in pairs}
        suite, *components = match["rest"].split()
        yield Archive(
            uri=match["uri"],
            suites=(suite,),
            components=tuple(components),
            signed_by=options.get("signed-by", ""),
            trusted=options.get("trusted", ""),
        )


def parse_deb822(text: str) -> Iterator[Archive]:
    r"""The binary archives in deb822 format that are not disabled.

    >>> [a.suites for a in parse_deb822("Types: deb\nURIs: http://m/d\nSuites: trixie\n")]
    [('trixie',)]
    """
    for stanza in re.split(r"\n\s*\n", text):
        fields = _fields(stanza)
        if "deb" not in fields.get("types", "").split():
            continue
        if fields.get("enabled", "yes").strip().lower() in {"no", "false", "0"}:
            continue
        for uri in fields.get("uris", "").split():
            yield Archive(
                uri=uri,
                suites=tuple(fields.get("suites", "").split()),
                components=tuple(fields.get("components", "").split()),
                signed_by=fields.get("signed-by", ""),
                trusted=fields.get("trusted", ""),
            )


def _fields(stanza: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1] in {" ", "\t"} and name:
            fields[name] += "\n" + line
            continue
        name, _, value = line.partition(":")
        name = name.strip().lower()
        fields[name] = value.strip()
    return fields


def debian_archives(archives: Sequence[Archive]) -> tuple[list[Archive], list[Archive]]:
    """The main archives and the security archives of Debian, the most credible first."""
    debian = [archive for archive in archives if _offers_debian(archive)]
    debian.sort(key=_doubt)
    return (
        [archive for archive in debian if not archive.is_security],
        [archive for archive in debian if archive.is_security],
    )


def _offers_debian(archive: Archive) -> bool:
    bases = {re.split(r"[-/]", suite)[0] for suite in archive.suites}
    scheme = archive.uri.partition(":")[0]
    return bool(bases & CODENAMES) and "main" in archive.components and scheme != "cdrom"


def _doubt(archive: Archive) -> int:
    """Others too publish "bookworm main"; what Debian's own key signs is the surest sign."""
    if "debian-archive" in archive.signed_by:
        return 0
    if archive.uri.rstrip("/").endswith(("/debian", "/debian-security")):
        return 1
    return 2


@dataclass(frozen=True, slots=True)
class Mirrors:
    """Where Debian is fetched from: the archive, and its security updates if the host has them."""

    main: Archive
    security: Archive | None

    def sources(self, suite: str) -> str:
        """A deb822 sources file that gives `suite`, trusted as the host trusts these mirrors."""
        stanzas = [_stanza(self.main, [suite, f"{suite}-updates"])]
        if self.security is not None:
            stanzas.append(_stanza(self.security, [f"{suite}-security"]))
        return "\n".join(stanzas)

    def sources_in_guest(self, suite: str) -> str:
        """The same for the guest's apt, which trusts Debian's own key and learns no password."""
        security = _public(self.security) if self.security else None
        return Mirrors(_public(self.main), security).sources(suite)


def _public(archive: Archive) -> Archive:
    uri = re.sub(r"://[^/@]*@", "://", archive.uri)
    return replace(archive, uri=uri, signed_by=GUEST_KEYRING, trusted="")


def _stanza(archive: Archive, suites: Sequence[str]) -> str:
    lines = [
        "Types: deb",
        f"URIs: {archive.uri}",
        f"Suites: {' '.join(suites)}",
        "Components: main",
    ]
    if archive.signed_by:
        lines.append(f"Signed-By: {archive.signed_by}")
    if archive.trusted:
        lines.append(f"Trusted: {archive.trusted}")
    return "\n".join(lines) + "\n"

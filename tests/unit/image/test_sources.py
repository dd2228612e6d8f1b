"""Debian's archives are found in a host's apt configuration, and told for another suite."""

from hypothesis import given
from hypothesis import strategies as st

from branchpoint_vmruntime.image.sources import (
    GUEST_KEYRING,
    Archive,
    Mirrors,
    debian_archives,
    parse_deb822,
    parse_one_line,
)

DEB822 = """\
# made by the installer
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: trixie trixie-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.pgp

Types: deb
URIs: http://mirror.example/debian-security
Suites: trixie-security
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 xyz

Enabled: no
Types: deb
URIs: http://disabled.example/debian
Suites: trixie
Components: main

Types: deb-src
URIs: http://sources.example/debian
Suites: trixie
Components: main
"""


def test_deb822_gives_every_enabled_binary_archive() -> None:
    uris = [archive.uri for archive in parse_deb822(DEB822)]
    assert uris == ["http://mirror.example/debian", "http://mirror.example/debian-security"]


def test_a_key_inside_the_sources_is_kept_whole() -> None:
    _, security = parse_deb822(DEB822)
    assert security.signed_by.splitlines()[-1] == " xyz"


def test_one_line_sources_are_read_with_their_options() -> None:
    text = (
        "#deb http://no/ x main\ndeb [arch=amd64 signed-by=/k.gpg] http://m/debian sid main # x\n"
    )
    (archive,) = parse_one_line(text)
    assert archive == Archive("http://m/debian", ("sid",), ("main",), signed_by="/k.gpg")


def test_source_lines_for_source_packages_are_left_out() -> None:
    assert list(parse_one_line("deb-src http://m/debian sid main\n")) == []


def test_main_and_security_archives_are_told_apart() -> None:
    main, security = debian_archives(list(parse_deb822(DEB822)))
    assert [archive.uri for archive in main] == ["http://mirror.example/debian"]
    assert [archive.uri for archive in security] == ["http://mirror.example/debian-security"]


def test_what_debians_own_key_signs_comes_before_others_that_use_debians_names() -> None:
    other = Archive("http://vendor.example/stable/debian", ("bookworm",), ("main",), "/vendor.gpg")
    debian = Archive(
        "http://far.example/d", ("bookworm",), ("main",), "/debian-archive-keyring.gpg"
    )
    main, _ = debian_archives([other, debian])
    assert main == [debian, other]


def test_a_compact_disc_is_no_mirror() -> None:
    disc = Archive("cdrom:[Debian 12]/", ("bookworm",), ("main",))
    assert debian_archives([disc]) == ([], [])


def test_an_archive_that_names_no_debian_suite_is_none_of_debians() -> None:
    node = Archive("http://node.example/", ("nodistro",), ("main",))
    assert debian_archives([node]) == ([], [])


def test_the_guest_learns_no_password_and_trusts_debians_key() -> None:
    main = Archive("https://me:secret@mirror.example/debian", ("trixie",), ("main",), "/ours.gpg")
    text = Mirrors(main, None).sources_in_guest("bookworm")
    assert "secret" not in text
    assert "URIs: https://mirror.example/debian\n" in text
    assert f"Signed-By: {GUEST_KEYRING}\n" in text


@given(suite=st.from_regex(r"[a-z]{3,9}", fullmatch=True), secured=st.booleans())
def test_what_is_written_is_read_back_the_same(suite: str, *, secured: bool) -> None:
    main = Archive("http://m/debian", ("x",), ("main",), signed_by="/k.gpg", trusted="yes")
    security = Archive("http://m/debian-security", ("x-security",), ("main",)) if secured else None
    read = list(parse_deb822(Mirrors(main, security).sources(suite)))
    assert read[0] == Archive(main.uri, (suite, f"{suite}-updates"), ("main",), "/k.gpg", "yes")
    assert [archive.suites for archive in read[1:]] == [(f"{suite}-security",)] * secured

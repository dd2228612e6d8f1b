"""Every spelling of a host is the same host."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.outside.names import (
    address_of,
    canonical_host,
    canonical_pattern,
    matches,
    split_port,
    with_port,
)


@pytest.mark.parametrize(
    "text",
    ["127.0.0.1", "127.1", "0x7f.1", "0x7f000001", "2130706433", "017700000001", "127.0.0.1.",
     "[::ffff:127.0.0.1]", "::ffff:7f00:1", "１２７.0.0.1"],  # noqa: RUF001
)  # fmt: skip
def test_an_address_has_one_spelling(text: str) -> None:
    assert canonical_host(text) == "127.0.0.1"


@pytest.mark.parametrize(
    "text",
    ["", ".", "a..b", "a b", "a/b", "a@b", "a:b", "-a", "1.2.3.256", "a.1", "[1.2.3.4]", "[::1",
     "fe80::1%eth0", "x" * 64, "a\r\nb", "a\0", ("x" * 60 + ".") * 5, "*.example.org"],
)  # fmt: skip
def test_what_is_no_host_is_told_as_such(text: str) -> None:
    with pytest.raises(UsageError):
        canonical_host(text)


def test_a_suffix_means_what_is_below_it() -> None:
    suffix = canonical_pattern("*.Example.ORG.")
    hosts = (
        "a.example.org",
        "a.b.example.org",
        "example.org",
        "anexample.org",
        "example.org.a.com",
    )
    assert [matches(suffix, host) for host in hosts] == [True, True, False, False, False]


@pytest.mark.parametrize("text", ["*", "*.", "*.1.2.3.4", "a.*.org", "**.org"])
def test_what_is_no_pattern_is_told_as_such(text: str) -> None:
    with pytest.raises(UsageError):
        canonical_pattern(text)


@given(st.text(max_size=80))
def test_a_spelling_is_found_once_and_for_all(text: str) -> None:
    try:
        host = canonical_host(text)
    except UsageError:
        return
    assert canonical_host(host) == host
    assert host.isascii()
    assert split_port(with_port(host, 1)) == (host, 1)


@given(st.ip_addresses())
def test_an_address_stays_that_address(address: object) -> None:
    found = address_of(canonical_host(str(address)))
    mapped = getattr(address, "ipv4_mapped", None)
    assert found == (mapped or address)


@pytest.mark.parametrize("text", ["a", "a:", "a:0", "a:65536", "a:b", "::1:80", "[::1]80", "a:1:2"])
def test_what_names_no_port_is_told_as_such(text: str) -> None:
    with pytest.raises(UsageError):
        split_port(text)

"""Rules as people write them, and the words for what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.outside.facts import WEB_PORTS, Rule
from branchpoint_vmruntime.outside.groups import groups
from branchpoint_vmruntime.outside.rule_text import (
    GROUP_NAMES,
    parse_allowed,
    parse_host,
    parse_method,
    parse_port,
    parse_rule,
)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("api.example.org", Rule(host="api.example.org", ports=WEB_PORTS)),
        ("API.Example.ORG.", Rule(host="api.example.org", ports=WEB_PORTS)),
        ("*.example.com:8443", Rule(host="*.example.com", ports=(8443,))),
        ("*.internal", Rule(host="*.internal", ports=WEB_PORTS)),
        ("nexus:8081", Rule(host="nexus", ports=(8081,))),
        ("my_host.example.org:1", Rule(host="my_host.example.org", ports=(1,))),
        ("bücher.example", Rule(host="xn--bcher-kva.example", ports=WEB_PORTS)),
        ("192.0.2.1", Rule(host="192.0.2.1", ports=WEB_PORTS)),
        ("192.0.2.1:65535", Rule(host="192.0.2.1", ports=(65535,))),
        ("[2001:DB8::0:1]", Rule(host="2001:db8::1", ports=WEB_PORTS)),
        ("[2001:db8::1]:8443", Rule(host="2001:db8::1", ports=(8443,))),
        ("[::ffff:192.0.2.1]:80", Rule(host="192.0.2.1", ports=(80,))),
    ],
)
def test_a_rule_is_a_host_and_perhaps_a_port(text: str, rule: Rule) -> None:
    assert parse_rule(text) == rule


@pytest.mark.parametrize("name", GROUP_NAMES)
def test_a_group_is_known_by_its_name(name: str) -> None:
    assert parse_allowed(name) == name


def test_the_groups_are_those_there_are() -> None:
    assert set(GROUP_NAMES) == groups().keys()


@pytest.mark.parametrize(("text", "near"), [("pipp", "pip"), ("PIP", "pip"), ("atp", "apt")])
def test_a_word_that_is_nearly_a_group_is_told_which(text: str, near: str) -> None:
    with pytest.raises(UsageError, match="is no group of hosts") as caught:
        parse_allowed(text)
    assert caught.value.hint.startswith(f"did you mean {near}?")


def test_a_word_that_is_like_no_group_is_told_what_there_is() -> None:
    with pytest.raises(UsageError, match="'nexus' is no group of hosts, and no host") as caught:
        parse_allowed("nexus")
    assert "groups are pip and apt" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("https://api.example.org/v1", "give the host alone: api.example.org"),
        ("https://me:word@api.example.org:80/v1", "give the host alone: api.example.org:80"),
        ("api.example.org/v1", "give the host alone: api.example.org"),
        ("/", "give the host alone"),
        ("*", "name the hosts that are needed"),
        ("*.", "a host is written like"),
        ("*.a.*", "a host is written like"),
        ("api*.example.org", "a host is written like"),
        ("", "a host is written like"),
        ("a..example", "a host is written like"),
        ("-a.example", "a host is written like"),
        ("a b.example", "a host is written like"),
        ("a\n.example", "a host is written like"),
        ("a\0.example", "a host is written like"),
        (f"{'a' * 64}.example", "a host is written like"),
        (".".join(["abcd"] * 60), "a host is written like"),
        ("300.0.0.1", "a host is written like"),
        ("*.192.0.2.1", "a host is written like"),
        ("::1", "an IPv6 address is written in brackets"),
        ("2001:db8::1:443", "an IPv6 address is written in brackets"),
        ("[::1", "an IPv6 address is written in brackets"),
        ("[::1]x", "an IPv6 address is written in brackets"),
        ("[fe80::1%eth0]", "an IPv6 address is written in brackets"),
        ("api.example.org:0", "ports go from 1 to 65535"),
        ("api.example.org:65536", "ports go from 1 to 65535"),
        ("api.example.org:", "ports go from 1 to 65535"),
        ("api.example.org:http", "ports go from 1 to 65535"),
        ("stra\N{LATIN SMALL LETTER SHARP S}e.example", "write it in its ASCII form"),
        ("xn--a.b\u00fccher.example", "write it in its ASCII form"),
        ("\N{FULLWIDTH LATIN SMALL LETTER A}pi.example.org", "write it in its ASCII form"),
    ],
)
def test_what_is_no_rule_is_told_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_rule(text)
    assert hint in caught.value.hint


@given(st.text(max_size=40) | st.text("[]:*./@%xn-a1\u00df", max_size=20))
def test_any_text_is_a_rule_or_refused_in_words(text: str) -> None:
    try:
        rule = parse_rule(text)
    except UsageError:
        return
    assert rule.host.isascii()
    assert parse_host(rule.host) == rule.host


def test_a_password_in_what_is_no_host_is_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        parse_rule("https://me:word@api.example.org/")
    assert "word" not in str(caught.value) + caught.value.hint


def test_methods_are_upper_case() -> None:
    assert parse_method("patch") == "PATCH"


@pytest.mark.parametrize("text", ["", "GET POST", "GET,POST", "G\u00c9T"])
def test_what_is_no_method_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no method"):
        parse_method(text)


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.5", "\u0661", "999999"])
def test_what_is_no_port_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no port"):
        parse_port(text)

"""What each branch may reach."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_vmruntime.errors import RefusedError
from branchpoint_vmruntime.outside.facts import Rule
from branchpoint_vmruntime.outside.policy import Policies

NAME = "api.example.org"


def refusal(policies: Policies, host: str, port: int, method: str | None = None) -> RefusedError:
    """How it is refused."""
    with pytest.raises(RefusedError) as caught:
        policies.judge("main", host, port, method)
    return caught.value


def test_nothing_may_be_reached_at_first() -> None:
    error = refusal(Policies(()), NAME, 443)
    assert NAME in str(error)
    assert error.hint == f"%egress allow {NAME}"


@pytest.mark.parametrize(
    ("host", "port", "line"),
    [
        (NAME, 8443, f"{NAME}:8443"),
        ("::1", 80, "[::1]"),
        ("::1", 81, "[::1]:81"),
        ("0x7f.1", 443, "127.0.0.1"),
        ("pip", 443, "pip:443"),
    ],
)
def test_the_hint_is_the_line_that_allows_it(host: str, port: int, line: str) -> None:
    assert refusal(Policies(()), host, port).hint == f"%egress allow {line}"


def test_the_hint_for_a_host_of_a_group_is_the_group() -> None:
    policies = Policies((), lambda host, port: "pip" if (host, port) == (NAME, 443) else "")
    assert refusal(policies, NAME, 443).hint == "%egress allow pip"
    assert refusal(policies, NAME, 80).hint == f"%egress allow {NAME}"


def test_another_port_of_an_allowed_host_is_refused_as_such() -> None:
    error = refusal(Policies([Rule(host=NAME)]), NAME, 22)
    assert "only port 80, 443" in str(error)
    assert error.hint == f"%egress allow {NAME}:22"


def test_another_method_is_refused_as_such() -> None:
    policies = Policies([Rule(host=NAME, methods=("get",))])
    error = refusal(policies, NAME, 443, "POST")
    assert error.hint == f"%egress allow {NAME} --method POST"
    assert policies.judge("main", NAME, 443, "GET").methods == ("GET",)


def test_until_its_method_is_known_a_request_may_be_allowed() -> None:
    assert Policies([Rule(host=NAME, methods=("GET",))]).judge("main", NAME, 443, None).methods


def test_rules_for_one_host_add_up() -> None:
    narrow = Rule(host=NAME, methods=("GET",), private=True)
    policies = Policies([narrow, Rule(host="*.example.org", inspect=True)])
    rule = policies.judge("main", NAME, 443, None)
    assert (rule.methods, rule.private, rule.inspect) == ((), True, True)


@pytest.mark.parametrize("host", ["API.example.org", "api.example.org.", "Api.Example.Org"])
def test_a_name_is_allowed_in_every_spelling(host: str) -> None:
    assert Policies([Rule(host=NAME)]).judge("main", host, 443, "GET").host == NAME


def test_what_is_no_name_is_refused() -> None:
    assert "neither the name nor the address" in str(refusal(Policies(()), "a/b", 443))


def test_a_fork_begins_with_its_parents_rules_and_then_has_its_own() -> None:
    policies = Policies(())
    policies.allow("main", [Rule(host=NAME)])
    policies.inherit("fork", "main")
    policies.allow("fork", [Rule(host="b.example.org")])
    policies.deny("main", NAME)
    assert [rule.host for rule in policies.rules("fork")] == [NAME, "b.example.org"]
    assert policies.rules("main") == ()


def test_a_branch_without_parent_begins_with_what_was_allowed_at_first() -> None:
    policies = Policies([Rule(host=NAME)])
    policies.deny("main", NAME)
    policies.inherit("other", None)
    assert [rule.host for rule in policies.rules("other")] == [NAME]


def test_a_group_is_denied_as_a_whole() -> None:
    policies = Policies([Rule(host="a.example.org", group="pip"), Rule(host="b.example.org")])
    assert [rule.host for rule in policies.deny("main", "pip")] == ["a.example.org"]
    assert [rule.host for rule in policies.rules("main")] == ["b.example.org"]


@pytest.mark.parametrize(
    ("host", "denied", "left"),
    [
        (NAME, f"{NAME}:443", [(80,)]),
        (NAME, f"{NAME}:22", [(80, 443)]),
        ("*.example.org", "*.Example.org:80", [(443,)]),
        ("::1", "[::1]:80", [(443,)]),
        ("::1", "::1", []),
    ],
)
def test_one_port_can_be_denied(host: str, denied: str, left: list[tuple[int, ...]]) -> None:
    policies = Policies([Rule(host=host)])
    policies.deny("main", denied)
    assert [rule.ports for rule in policies.rules("main")] == left


def test_what_was_allowed_twice_is_there_once() -> None:
    policies = Policies(())
    policies.allow("main", [Rule(host=NAME), Rule(host=NAME.upper())])
    policies.allow("main", [Rule(host=f"{NAME}.")])
    assert len(policies.rules("main")) == 1


HOSTS = st.sampled_from(["a.example.org", "b.example.org", "a.b.example.org", "example.org"])
PATTERNS = st.sampled_from(["a.example.org", "*.example.org", "*.b.example.org", "example.org"])
METHODS = st.sampled_from(["GET", "POST", "PUT"])
RULES = st.builds(
    Rule,
    host=PATTERNS,
    ports=st.lists(st.sampled_from([80, 443]), min_size=1, max_size=2).map(tuple),
    methods=st.lists(METHODS, max_size=2).map(tuple),
)


@given(st.lists(RULES, max_size=4), HOSTS, st.sampled_from([80, 443]), METHODS)
def test_it_is_allowed_if_and_only_if_one_rule_alone_allows_it(
    rules: list[Rule], host: str, port: int, method: str
) -> None:
    def allows(rule: Rule) -> bool:
        suffix = rule.host.removeprefix("*")
        is_host = host.endswith(suffix) if suffix != rule.host else host == rule.host
        return is_host and port in rule.ports and (not rule.methods or method in rule.methods)

    try:
        Policies(rules).judge("main", host, port, method)
    except RefusedError:
        assert not any(map(allows, rules))
    else:
        assert any(map(allows, rules))

"""What branchpoint.yaml says of the outside world: egress, secrets, files, prices, limits."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from branchpoint_vmruntime.errors import ManifestError
from branchpoint_vmruntime.manifest import FILE_NAME, Manifest
from branchpoint_vmruntime.outside.facts import (
    WEB_PORTS,
    Limits,
    OutsideSpec,
    Price,
    Rule,
    SecretSource,
    SecretSpec,
)

WHOLE = """\
egress:
  allow:
    - pip
    - apt
    - api.example.org
    - "*.example.com:8443"
    - {host: internal.example, ports: [80], methods: [get, HEAD], private: true, inspect: true}
secrets:
  API_KEY: {host: api.example.org, from: env}
  TOKEN: {hosts: [a.example.org, b.example.org], from: {file: token}, header: "X-Token: {}"}
  OTHER: {host: x.example.org, from: {env: OTHER_NAME}, header: none}
files: [., "data/*.csv"]
prices:
  currency: EUR
  models: {gpt-4o-mini: {input: 0.15, output: 0.6}}
budgets: {memory: 2gb, machines: 8, tokens: 200000, money: 5.00, forks: 100, time: 2h}
"""


def outside(text: str, folder: Path | None = None) -> OutsideSpec:
    return Manifest.parse(text, folder=folder).outside


def test_all_that_can_be_said_is_taken_over(tmp_path: Path) -> None:
    assert outside(WHOLE, tmp_path) == OutsideSpec(
        allow=(
            "pip",
            "apt",
            Rule(host="api.example.org"),
            Rule(host="*.example.com", ports=(8443,)),
            Rule(
                host="internal.example",
                ports=(80,),
                methods=("GET", "HEAD"),
                private=True,
                inspect=True,
            ),
        ),
        secrets=(
            SecretSpec(
                name="API_KEY", hosts=("api.example.org",), source=SecretSource(variable="API_KEY")
            ),
            SecretSpec(
                name="TOKEN",
                hosts=("a.example.org", "b.example.org"),
                header="X-Token: {}",
                source=SecretSource(file=tmp_path / "token"),
            ),
            SecretSpec(
                name="OTHER",
                hosts=("x.example.org",),
                header="",
                source=SecretSource(variable="OTHER_NAME"),
            ),
        ),
        files=(".", "data/*.csv"),
        prices={"gpt-4o-mini": Price(input=0.15, output=0.6)},
        currency="EUR",
        limits=Limits(tokens=200_000, money=5.0, forks=100, wall_s=7200),
    )


def test_what_is_not_said_opens_nothing_and_limits_nothing() -> None:
    assert outside("machine: 1vcpu-1gb\negress: {}\nsecrets: {}\nbudgets: {}") == OutsideSpec()


@pytest.mark.parametrize(
    ("text", "allow"),
    [
        ("allow: pip", ("pip",)),
        ("allow: []", ()),
        ("allow: [{host: nexus}]", (Rule(host="nexus"),)),
        ("allow: [{host: x.example, ports: 8080}]", (Rule(host="x.example", ports=(8080,)),)),
        ("allow: [{host: x.example, methods: PUT}]", (Rule(host="x.example", methods=("PUT",)),)),
        ("allow: [{host: '::1', private: yes}]", (Rule(host="::1", private=True),)),
    ],
)
def test_short_ways_of_saying_what_may_leave(text: str, allow: tuple[str | Rule, ...]) -> None:
    assert outside(f"egress: {{{text}}}").allow == allow


def test_a_rule_without_ports_means_those_of_the_web() -> None:
    [rule] = outside("egress: {allow: [{host: x.example, private: false}]}").allow
    assert rule == Rule(host="x.example", ports=WEB_PORTS)


def test_one_file_needs_no_list() -> None:
    assert outside("files: ./data/").files == ("data",)


def test_a_secret_s_file_is_looked_for_beside_the_manifest(tmp_path: Path) -> None:
    file = tmp_path / FILE_NAME
    file.write_text("secrets: {TOKEN: {host: x.example, from: {file: keys/token}}}")
    [secret] = Manifest.load(file).outside.secrets
    assert secret.source == SecretSource(file=tmp_path / "keys" / "token")


def test_a_secret_s_file_may_be_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    [secret] = outside(
        "secrets: {TOKEN: {host: x.example, from: {file: ~/token}}}", Path("/else")
    ).secrets
    assert secret.source == SecretSource(file=tmp_path / "token")


def test_a_secret_may_be_bound_to_a_port_and_to_names_below() -> None:
    [secret] = outside("secrets: {T: {hosts: ['*.Example.org:8443', '::1'], from: env}}").secrets
    assert secret.hosts == ("*.example.org:8443", "[::1]")


BY_REFERENCE = "a secret is given by reference, its value does not belong here"
REFUSED = [
    ("egress: pip", 1, "expected fields: allow"),
    ("egress:\n  deny: [x.example]", 2, "'deny' is not a field here; there is: allow"),
    ("egress:\n  allow:\n    - apt\n    - pipp", 4, "'pipp' is no group of hosts"),
    ("egress:\n  allow:\n    - pipp", 3, "did you mean pip?"),
    ("egress:\n  allow:\n    - 7", 3, "'7' is no group of hosts"),
    ("egress:\n  allow:\n    - x.example:http", 3, "'http' is no port; ports go from 1 to"),
    ("egress:\n  allow:\n    - https://x.example/", 3, "give the host alone: x.example"),
    ("egress:\n  allow:\n    - '*'", 3, "name the hosts that are needed"),
    ("egress:\n  allow:\n    - [x.example]", 3, "expected a plain value"),
    ("egress:\n  allow:\n    - {ports: [80]}", 3, "a rule needs a host"),
    ("egress:\n  allow:\n    - host: x.example\n      ports: [0]", 4, "'0' is no port"),
    ("egress:\n  allow:\n    - host: x.example\n      ports: []", 4, "no ports would mean"),
    ("egress:\n  allow:\n    - host: x.example\n      methods: []", 4, "no methods would mean"),
    ("egress:\n  allow:\n    - host: x.example\n      methods: [a b]", 4, "'a b' is no method"),
    ("egress:\n  allow:\n    - host: x.example:80", 3, "'x.example:80' is"),
    ("egress:\n  allow:\n    - host: x.example\n      private: maybe", 4, "neither true nor false"),
    ("egress:\n  allow:\n    - {host: x.example, port: 80}", 3, "'port' is not a field here"),
    ("secrets: [API_KEY]", 1, "expected names, each with what is said of it"),
    ("secrets:\n  API-KEY: {host: x.example, from: env}", 2, "named like a variable"),
    ("secrets:\n  KEY: hunter2", 2, BY_REFERENCE),
    ("secrets:\n  KEY: {host: x.example, value: hunter2}", 2, BY_REFERENCE),
    ("secrets:\n  KEY: {host: x.example, hunter2: x}", 2, BY_REFERENCE),
    ("secrets:\n  KEY:\n    host: x.example\n    from: hunter2", 4, BY_REFERENCE),
    ("secrets:\n  KEY:\n    host: x.example\n    from: [hunter2]", 4, BY_REFERENCE),
    ("secrets:\n  KEY:\n    host: x.example\n    from: {value: hunter2}", 4, BY_REFERENCE),
    ("secrets:\n  KEY:\n    host: x.example\n    from: {env: A, file: hunter2}", 4, BY_REFERENCE),
    ("secrets:\n  KEY:\n    host: x.example\n    from: {env: hunter-2}", 4, "a variable of the"),
    ("secrets:\n  KEY:\n    host: x.example\n    from: {file: ''}", 4, "file names a file"),
    ("secrets:\n  KEY:\n    host: x.example\n    from: {file: ~nobody-here/x}", 4, "home folder"),
    ("secrets:\n  KEY: {host: x.example}", 2, "KEY does not say where it comes from"),
    ("secrets:\n  KEY: {from: env}", 2, "KEY needs one of host and hosts"),
    ("secrets:\n  KEY: {host: a.example, hosts: [b.example], from: env}", 2, "one of host and"),
    ("secrets:\n  KEY:\n    from: env\n    hosts: []", 4, "KEY is bound to no host"),
    ("secrets:\n  KEY:\n    from: env\n    host: https://x.example", 4, "is no host a secret"),
    (
        "secrets:\n  KEY:\n    from: env\n    host: x.example\n    header: 'A: hunter2'",
        5,
        "a place",
    ),
    (
        "secrets:\n  KEY:\n    from: env\n    host: x.example\n    header: 'Host: {}'",
        5,
        "header is",
    ),
    ("secrets:\n  KEY: {from: env, host: a}\n  KEY: {from: env, host: a}", 3, "given twice"),
    ("files:\n  - /etc/passwd", 2, "'/etc/passwd': a file or pattern is relative"),
    ("files:\n  - .\n  - ../secrets", 3, "'../secrets': a file or pattern"),
    ("files:\n  - a/../../b", 2, "stays in it"),
    ("files:\n  - ~/x", 2, "stays in it"),
    ("files:\n  - ''", 2, "stays in it"),
    ("files:\n  - null", 2, "stays in it"),
    ("files: {a: b}", 1, "expected a plain value"),
    ("prices:\n  currency: euro", 2, "'euro' is not a currency such as USD or EUR"),
    ("prices:\n  currency: EURO", 2, "'EURO' is not a currency such as USD or EUR"),
    ("prices:\n  gpt: {input: 1, output: 1}", 2, "'gpt' is not a field here"),
    ("prices:\n  models: [gpt]", 2, "expected names"),
    ("prices:\n  models:\n    gpt: {input: 1}", 3, "gpt needs a price for input and for output"),
    ("prices:\n  models:\n    gpt:\n      input: -1\n      output: 1", 4, "'-1' is not an amount"),
    ("prices:\n  models:\n    gpt:\n      input: 1\n      output: free", 5, "'free' is not an am"),
    ("prices:\n  models:\n    '': {input: 1, output: 1}", 3, "cannot be the name of a model"),
    ("budgets:\n  tokens: many", 2, "'many' is not a whole number such as 200000"),
    ("budgets:\n  forks: 1.5", 2, "'1.5' is not a whole number"),
    ("budgets:\n  time: 2 hours", 2, "'2 hours' is not a time such as 90s, 15m, 2h or 1d"),
    ("budgets:\n  time: 0s", 2, "lives for more than no time"),
    ("budgets:\n  money: five", 2, "'five' is not an amount of money such as 5 or 0.25"),
    ("budgets:\n  money: 5", 2, "a budget of money needs prices, and this file lists none"),
]


@pytest.mark.parametrize(("text", "line", "why"), REFUSED)
def test_what_cannot_be_is_an_error_with_its_line_and_what_is_accepted(
    text: str, line: int, why: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        Manifest.parse(text)
    assert str(caught.value).startswith(f"{FILE_NAME}, line {line}: ")
    assert why in str(caught.value)


LITERAL = [text for text, _, _ in REFUSED if "hunter2" in text]


@pytest.mark.parametrize("text", LITERAL)
def test_what_may_be_a_secret_is_not_repeated(text: str) -> None:
    with pytest.raises(ManifestError) as caught:
        Manifest.parse(text)
    assert "hunter2" not in str(caught.value)


REFERENCE = (Path(__file__).parents[3] / "docs" / "reference" / "manifest.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", REFERENCE, re.MULTILINE | re.DOTALL)


def test_the_reference_has_a_section_for_every_field() -> None:
    sections = re.findall(r"^## `(\w+)`$", REFERENCE, re.MULTILINE)
    with pytest.raises(ManifestError, match=f"there is: {', '.join(sections)}$"):
        Manifest.parse("nothing: 1")


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_of_the_reference_is_a_manifest(example: str) -> None:
    assert Manifest.parse(example) != Manifest()


def test_the_first_example_of_the_reference_says_something_of_every_field() -> None:
    said, nothing = Manifest.parse(EXAMPLES[0]), Manifest()
    names = [field.name for field in fields(Manifest)]
    assert [name for name in names if getattr(said, name) == getattr(nothing, name)] == []

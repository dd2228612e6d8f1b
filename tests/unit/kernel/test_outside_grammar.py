"""What may be written after the magics of the outside world, and how the rest is refused."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_kernel.commands import (
    AddSecret,
    Allow,
    Deny,
    Forward,
    Get,
    Put,
    RaiseLimit,
    RemoveSecret,
    SaveCosts,
    Settle,
    ShowCosts,
    ShowEgress,
    ShowForwards,
    ShowLedger,
    ShowSecrets,
    StopForward,
)
from branchpoint_kernel.grammar import parse
from branchpoint_kernel.manual import MAGICS
from branchpoint_kernel.outside_manual import OUTSIDE
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.outside.facts import Rule, SecretSource

API = Rule(host="api.example.org")
FLAGS = sorted({flag for magic in OUTSIDE for flag in magic.flags})
WORDS = ["allow", "deny", "add", "remove", "pip", "A", "a.example.org", "8000", "x=1", "#", *FLAGS]


@pytest.mark.parametrize(
    ("name", "line", "command"),
    [
        ("egress", "", ShowEgress()),
        ("egress", "--branch b", ShowEgress("b")),
        ("egress", "allow pip", Allow(names=("pip",))),
        ("egress", "allow pip api.example.org", Allow(names=("pip", API))),
        ("egress", "allow pip,apt --branch all", Allow(names=("pip", "apt"), branch="all")),
        (
            "egress",
            "allow *.Example.com:8443",
            Allow(names=(Rule(host="*.example.com", ports=(8443,)),)),
        ),
        (
            "egress",
            "allow api.example.org --method get,POST --port 80,81 --private --inspect",
            Allow(
                names=(
                    Rule(
                        host="api.example.org",
                        ports=(80, 81),
                        methods=("GET", "POST"),
                        private=True,
                        inspect=True,
                    ),
                )
            ),
        ),
        ("egress", "deny pip a.example.org", Deny(names=("pip", "a.example.org"))),
        ("egress", "deny pip --branch b", Deny(names=("pip",), branch="b")),
        ("secrets", "", ShowSecrets()),
        (
            "secrets",
            "add KEY --host a.example.org,b.example.org",
            AddSecret(
                name="KEY", hosts=("a.example.org", "b.example.org"), header=None, source=None
            ),
        ),
        (
            "secrets",
            "add KEY --host a.example.org --header 'X-Key: {}' --from env:OTHER",
            AddSecret(
                name="KEY",
                hosts=("a.example.org",),
                header="X-Key: {}",
                source=SecretSource(variable="OTHER"),
            ),
        ),
        (
            "secrets",
            "add KEY --host a.example.org --header none --from file:~/key",
            AddSecret(
                name="KEY",
                hosts=("a.example.org",),
                header="",
                source=SecretSource(file=Path("~/key")),
            ),
        ),
        (
            "secrets",
            "add KEY --host a.example.org --from prompt",
            AddSecret(name="KEY", hosts=("a.example.org",), header=None, source=None, asks=True),
        ),
        ("secrets", "remove KEY", RemoveSecret("KEY")),
        ("ledger", "", ShowLedger()),
        (
            "ledger",
            "--since loaded --branch b --all",
            ShowLedger(since="loaded", branch="b", whole=True),
        ),
        ("ledger", "--accept 'order 42'", Settle(key="order 42", took_place=True)),
        ("ledger", "--retry order-42", Settle(key="order-42", took_place=False)),
        ("costs", "", ShowCosts()),
        ("costs", "--csv out/costs.csv", SaveCosts(file="out/costs.csv")),
        ("costs", "--csv=costs.csv --force", SaveCosts(file="costs.csv", force=True)),
        ("costs", "--raise tokens=400000", RaiseLimit(name="tokens", value="400000")),
        ("costs", "--raise=time=2h", RaiseLimit(name="time", value="2h")),
        ("forward", "", ShowForwards()),
        ("forward", "8000", Forward(port=8000)),
        ("forward", "8000 --to 9000 --branch b", Forward(port=8000, to=9000, branch="b")),
        ("forward", "8000 --stop --branch b", StopForward(port=8000, branch="b")),
        ("put", "a.csv 'b c.csv'", Put(files=("a.csv", "b c.csv"))),
        ("put", "a.csv --to data/", Put(files=("a.csv",), to="data/")),
        ("get", "m.bin --to /tmp/m.bin", Get(files=("m.bin",), to="/tmp/m.bin")),
    ],
)
def test_a_line_becomes_its_command(name: str, line: str, command: object) -> None:
    assert parse(name, line) == command


@pytest.mark.parametrize(
    ("name", "line", "says"),
    [
        ("egress", "pip", "followed by allow or deny, not by 'pip'"),
        ("egress", "allow", "needs the name of a host or a group"),
        ("egress", "allow all", "there is no opening everything"),
        ("egress", "allow '*'", "there is no opening everything"),
        ("egress", "allow api.example.org --port 99999", "'99999' is no port"),
        ("egress", "deny pip --port 80", "without --port"),
        ("egress", "--port 80", "--port says how to allow a host, and none is named"),
        ("secrets", "KEY", "followed by add or remove, not by 'KEY'"),
        ("secrets", "add", "needs a name that a variable can have"),
        ("secrets", "add my-key --host a", "not 'my-key'"),
        ("secrets", "add KEY", "bound to a host: %secrets add KEY --host HOST"),
        ("secrets", "add KEY --host a --header X-Key", "'Name: {}' or none, not 'X-Key'"),
        ("secrets", "add KEY value --host a", "does not know what to do with 'value'"),
        ("secrets", "add KEY --host a --from s3cr3t", "it is not typed into a cell"),
        ("secrets", "add KEY --host a --from env:", "it is not typed into a cell"),
        ("secrets", "remove KEY --host a", "remove takes no --host"),
        ("secrets", "--host a", "--host belongs to a secret, and none is named"),
        ("ledger", "now", "does not know what to do with 'now'"),
        ("ledger", "--accept K --branch b", "--accept KEY stands alone"),
        ("ledger", "--accept", "--accept needs a key after it"),
        ("costs", "--raise tokens", "NAME=VALUE, such as tokens=400000"),
        ("costs", "--raise tokens=5 --csv costs.csv", "stands alone"),
        ("costs", "--force", "--force belongs to --csv FILE"),
        ("forward", "http", "'http' is no port"),
        ("forward", "0", "'0' is no port"),
        ("forward", "8000 9000", "does not know what to do with '9000'"),
        ("forward", "--to 9000", "needs the port of the machine"),
        ("forward", "8000 --stop --to 9000", "--stop takes no --to"),
        ("put", "", "%put needs the name of a file"),
        ("get", "--to x", "%get needs the name of a file"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_what_to_type(name: str, line: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(name, line)
    assert says in str(refused.value)
    assert refused.value.hint


@pytest.mark.parametrize("line", ["allow pip --port 80", "allow apt --private"])
def test_a_group_takes_nothing_that_narrows_a_host(line: str) -> None:
    with pytest.raises(UsageError, match="is a group: it takes no --p"):
        parse("egress", line)


def test_a_slip_in_a_groups_name_is_answered_with_the_group() -> None:
    with pytest.raises(UsageError) as refused:
        parse("egress", "allow ppi")
    assert "pip" in refused.value.hint


@given(st.text(), st.sampled_from([magic.name for magic in OUTSIDE]))
def test_nothing_that_can_be_typed_is_answered_by_anything_but_a_command_or_a_refusal(
    line: str, name: str
) -> None:
    with suppress(UsageError):
        parse(name, line)


@given(st.lists(st.sampled_from(WORDS)), st.sampled_from([magic.name for magic in OUTSIDE]))
def test_no_order_of_words_and_flags_is_answered_by_anything_else(
    words: list[str], name: str
) -> None:
    with suppress(UsageError):
        parse(name, " ".join(words))


@pytest.mark.parametrize("name", list(MAGICS))
def test_every_flag_and_action_is_in_the_usage(name: str) -> None:
    magic = MAGICS[name]
    assert [word for word in (*magic.flags, *magic.actions) if word not in magic.usage] == []


def test_a_typed_secret_shows_in_no_repr() -> None:
    typed = AddSecret(name="K", hosts=("a",), header=None, source=None, value="s3cr3t")
    assert "s3cr3t" not in repr(typed)

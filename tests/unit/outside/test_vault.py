"""Secrets go to the hosts they are bound to, for the branches that hold their placeholders."""

import base64
import os
import re
from pathlib import Path

import pytest

from branchpoint_vmruntime.errors import RefusedError, UnknownNameError, UsageError
from branchpoint_vmruntime.outside.facts import SecretSource, SecretSpec
from branchpoint_vmruntime.outside.injection import Headers
from branchpoint_vmruntime.outside.vault import Vault

VALUE = "v4lue/of the+secret"
HOST = "api.example.org:443"
BARE: Headers = ((b"host", b"api.example.org"),)


def a_spec(name: str = "KEY", *hosts: str, header: str = "Authorization: Bearer {}") -> SecretSpec:
    """A secret that is typed in."""
    bound = hosts or ("api.example.org",)
    return SecretSpec(name=name, hosts=bound, header=header, source=SecretSource())


def a_vault(*specs: SecretSpec) -> Vault:
    """One that holds those secrets, each with the same value."""
    vault = Vault()
    for spec in specs or (a_spec(),):
        vault.add(spec, VALUE)
    return vault


def placeholder(vault: Vault, branch: str = "main", name: str = "KEY") -> bytes:
    """What a branch's machine holds in place of a secret."""
    return vault.issue(branch)[name].encode()


def test_a_placeholder_names_its_secret_and_is_random() -> None:
    one, other = (placeholder(a_vault()) for _ in range(2))
    assert re.fullmatch(rb"branchpoint-KEY-[A-Za-z0-9_-]{22}", one)
    assert one != other


def test_a_branch_keeps_its_placeholder_and_every_branch_has_another() -> None:
    vault = a_vault()
    assert placeholder(vault, "main") == placeholder(vault, "main")
    assert placeholder(vault, "main") != placeholder(vault, "ridge")


def test_a_request_to_the_bound_host_gets_the_header() -> None:
    sent = a_vault().inject("main", HOST, b"/v1", BARE)
    assert sent.target == b"/v1"
    assert sent.headers == (*BARE, (b"Authorization", b"Bearer " + VALUE.encode()))
    assert VALUE.encode() in sent.masks


def test_a_header_of_that_name_is_replaced_in_whatever_case() -> None:
    vault = a_vault(a_spec(header="X-Api-Key: {}"))
    sent = vault.inject("main", HOST, b"/", ((b"x-API-key", b"mine"), *BARE))
    assert [value for name, value in sent.headers if name.lower() == b"x-api-key"] == [
        VALUE.encode()
    ]


def test_a_request_to_another_host_passes_untouched() -> None:
    sent = a_vault().inject("main", "www.example.org:443", b"/?a=b", BARE)
    assert (sent.target, sent.headers, sent.masks) == (b"/?a=b", BARE, ())


def test_a_secret_without_a_header_goes_only_where_its_placeholder_is() -> None:
    vault = a_vault(a_spec(header=""))
    assert vault.inject("main", HOST, b"/", BARE).headers == BARE
    headers = ((b"x-token", b"t=" + placeholder(vault)),)
    assert vault.inject("main", HOST, b"/", headers).headers == (
        (b"x-token", b"t=" + VALUE.encode()),
    )


def test_basic_credentials_are_opened_filled_and_closed_again() -> None:
    vault = a_vault()
    written = b"Basic " + base64.b64encode(b"user:" + placeholder(vault))
    sent = vault.inject("main", HOST, b"/", ((b"authorization", written),))
    filled = base64.b64encode(b"user:" + VALUE.encode())
    assert sent.headers == ((b"authorization", b"Basic " + filled),)
    assert filled in sent.masks


@pytest.mark.parametrize("dash", [b"-", b"%2d", b"%2D"])
def test_a_placeholder_in_the_target_is_replaced_percent_encoded(dash: bytes) -> None:
    vault = a_vault(a_spec(header=""))
    target = b"/v1?key=%s&x=1" % placeholder(vault).replace(b"-", dash)
    sent = vault.inject("main", HOST, target, BARE)
    assert sent.target == b"/v1?key=v4lue%2Fof%20the%2Bsecret&x=1"
    assert b"v4lue%2Fof%20the%2Bsecret" in sent.masks


def test_two_secrets_of_one_host_each_go_where_they_are_named() -> None:
    vault = Vault()
    vault.add(a_spec("ONE"), "first")
    vault.add(a_spec("TWO", header="X-Two: {}"), "second")
    headers = ((b"x-one", placeholder(vault, name="ONE")),)
    assert dict(vault.inject("main", HOST, b"/", headers).headers) == {
        b"x-one": b"first",
        b"Authorization": b"Bearer first",
        b"X-Two": b"second",
    }


def test_a_fork_may_use_what_its_memory_holds_of_its_ancestors() -> None:
    vault = a_vault()
    inherited = placeholder(vault, "main")
    vault.inherit("ridge", "main")
    vault.inherit("ridge_2", "ridge")
    headers = ((b"authorization", b"Bearer " + inherited),)
    sent = vault.inject("ridge_2", HOST, b"/", headers)
    assert sent.headers == ((b"authorization", b"Bearer " + VALUE.encode()),)


def refusal(vault: Vault, branch: str, host: str, bearer: bytes) -> RefusedError:
    """What a request that bears that is refused with."""
    with pytest.raises(RefusedError) as refused:
        vault.inject(branch, host, b"/", ((b"authorization", b"Bearer " + bearer),))
    return refused.value


def test_an_ancestor_may_not_use_what_belongs_to_its_fork() -> None:
    vault = a_vault()
    vault.inherit("ridge", "main")
    error = refusal(vault, "main", HOST, placeholder(vault, "ridge"))
    assert "of the branch 'ridge'" in str(error)
    assert "branchpoint.secret('KEY')" in error.hint


def test_what_was_made_for_the_parent_after_the_fork_is_not_the_forks() -> None:
    vault = a_vault()
    vault.inherit("ridge", "main")
    vault.add(a_spec("LATER", header=""), VALUE)
    assert "'main'" in str(refusal(vault, "ridge", HOST, placeholder(vault, "main", "LATER")))


def test_a_placeholder_towards_another_host_is_refused() -> None:
    vault = a_vault()
    error = refusal(vault, "main", "www.example.org:443", placeholder(vault))
    assert "bound to api.example.org and does not go to www.example.org:443" in str(error)


@pytest.mark.parametrize("where", ["target", "basic", "encoded"])
def test_a_placeholder_is_found_towards_another_host_wherever_it_is(where: str) -> None:
    vault = a_vault()
    mine = placeholder(vault)
    target, headers = {
        "target": (b"/a/" + mine, BARE),
        "basic": (b"/", ((b"authorization", b"basic " + base64.b64encode(b"u:" + mine)),)),
        "encoded": (b"/?q=" + b"".join(b"%%%02X" % sign for sign in mine), BARE),
    }[where]
    with pytest.raises(RefusedError):
        vault.inject("main", "www.example.org:80", target, headers)


def test_one_that_was_not_made_here_is_refused_to_every_host() -> None:
    for host in (HOST, "www.example.org:443"):
        error = refusal(a_vault(), "main", host, placeholder(a_vault()))
        assert "not made here" in str(error)


def test_words_that_only_begin_like_one_pass() -> None:
    headers = ((b"user-agent", b"branchpoint-tests"), (b"x", b"branchpoint-KEY-short"))
    assert a_vault().inject("main", "www.example.org", b"/branchpoint-a", headers).headers == (
        headers
    )


def test_a_dropped_branch_gets_nothing_and_its_placeholders_are_nobodys() -> None:
    vault = a_vault()
    vault.inherit("ridge", "main")
    its = placeholder(vault, "ridge")
    vault.revoke("ridge")
    for branch in ("ridge", "main"):
        assert "was dropped" in str(refusal(vault, branch, HOST, its))
    with pytest.raises(RefusedError, match="was dropped"):
        vault.inject("ridge", HOST, b"/", BARE)
    with pytest.raises(RefusedError, match="was dropped"):
        vault.issue("ridge")


def test_dropping_an_ancestor_takes_nothing_from_its_forks() -> None:
    vault = a_vault()
    inherited = placeholder(vault, "main")
    vault.inherit("ridge", "main")
    vault.revoke("main")
    headers = ((b"authorization", b"Bearer " + inherited),)
    assert VALUE.encode() in vault.inject("ridge", HOST, b"/", headers).headers[0][1]


def test_a_new_branch_of_a_dropped_ones_name_is_another() -> None:
    vault = a_vault()
    old = placeholder(vault, "ridge")
    vault.revoke("ridge")
    vault.inherit("ridge", None)
    assert placeholder(vault, "ridge") != old
    assert "an earlier branch 'ridge'" in str(refusal(vault, "ridge", HOST, old))


def test_a_session_that_is_taken_up_again_knows_its_placeholders(tmp_path: Path) -> None:
    file = tmp_path / "placeholders.json"
    vault = Vault(file)
    vault.add(a_spec(), VALUE)
    of_main = placeholder(vault)
    vault.inherit("ridge", "main")
    vault.inherit("lasso", "main")
    of_lasso = placeholder(vault, "lasso")
    vault.revoke("lasso")
    again = Vault(file)
    again.add(a_spec(), VALUE)
    assert placeholder(again) == of_main
    headers = ((b"x", of_main),)
    assert again.inject("ridge", HOST, b"/", headers).headers[0] == (b"x", VALUE.encode())
    assert "was dropped" in str(refusal(again, "main", HOST, of_lasso))
    assert "was dropped" in str(refusal(again, "lasso", HOST, of_lasso))


def test_what_is_kept_of_a_vault_holds_no_value_and_is_its_owners_alone(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "placeholders.json")
    vault.add(a_spec(), VALUE)
    vault.issue("main")
    (file,) = tmp_path.iterdir()
    assert VALUE not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damaged", ["", "[]", '{"origins": {"a": 1}}', "\x00"])
def test_a_damaged_file_of_placeholders_is_begun_anew(tmp_path: Path, damaged: str) -> None:
    file = tmp_path / "placeholders.json"
    file.write_text(damaged)
    vault = Vault(file)
    vault.add(a_spec(), VALUE)
    its = placeholder(vault)
    assert its in file.read_bytes()


def test_a_folder_that_cannot_be_written_does_not_stop_the_vault(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "gone" / "placeholders.json")
    vault.add(a_spec(), VALUE)
    assert placeholder(vault) == placeholder(vault)


def test_a_removed_secret_goes_out_no_more() -> None:
    vault = a_vault()
    its = placeholder(vault)
    vault.remove("KEY")
    assert vault.inject("main", HOST, b"/", BARE).headers == BARE
    assert "no secret any more" in str(refusal(vault, "main", HOST, its))
    assert vault.names() == []
    with pytest.raises(UnknownNameError):
        vault.remove("KEY")


def test_a_secret_that_is_replaced_keeps_its_placeholders() -> None:
    vault = a_vault()
    its = placeholder(vault)
    vault.add(a_spec(), "renewed")
    assert placeholder(vault) == its
    assert vault.inject("main", HOST, b"/", BARE).headers[-1][1] == b"Bearer renewed"


def test_https_needs_to_be_opened_only_towards_bound_hosts() -> None:
    vault = a_vault(a_spec("KEY", "*.example.org:8443"))
    assert vault.needs("api.example.org:8443")
    assert not vault.needs("api.example.org:443")
    assert not vault.needs("example.com:8443")


@pytest.mark.parametrize("host", ["", "a:99999", "\udcff.example.org", "a..ü", "[::1"])
def test_a_host_that_makes_no_sense_is_nobodys(host: str) -> None:
    vault = a_vault()
    assert not vault.needs(host)
    assert vault.inject("main", host, b"/", BARE).headers == BARE
    assert refusal(vault, "main", host, placeholder(vault))


def test_a_variable_of_the_host_is_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_HOST", VALUE)
    vault = Vault()
    source = SecretSource(variable="OF_THE_HOST")
    vault.add(SecretSpec(name="KEY", hosts=("api.example.org",), source=source))
    assert VALUE.encode() in vault.inject("main", HOST, b"/", BARE).masks


def test_a_file_is_a_source_and_is_read_again_once_it_was_written_anew(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    vault = Vault()
    source = SecretSource(file=file)
    vault.add(SecretSpec(name="KEY", hosts=("api.example.org",), source=source))
    assert vault.inject("main", HOST, b"/", BARE).headers[-1][1] == b"Bearer first"
    file.write_text("renewed\r\n")
    assert vault.inject("main", HOST, b"/", BARE).headers[-1][1] == b"Bearer renewed"
    file.unlink()
    with pytest.raises(RefusedError, match="cannot be read"):
        vault.inject("main", HOST, b"/", BARE)


def test_a_source_that_is_not_there_is_told_with_what_to_do(tmp_path: Path) -> None:
    assert "NOT_SET_HERE" not in os.environ
    for source, words in (
        (SecretSource(variable="NOT_SET_HERE"), r"\$NOT_SET_HERE, which is not set"),
        (SecretSource(file=tmp_path / "none"), "cannot be read: No such file"),
        (SecretSource(), "no source"),
    ):
        with pytest.raises(UsageError, match=words) as refused:
            Vault().add(SecretSpec(name="KEY", hosts=("a.example.org",), source=source))
        assert refused.value.hint


IMPOSSIBLE = {
    "empty": (a_spec(), "", "is empty"),
    "no text": (a_spec(), "\udcff", "is no text"),
    "two lines": (a_spec(), "a\r\nX: y", "line break"),
    "blank around": (a_spec(), " a", "begins or ends with a blank"),
    "name": (a_spec("A-B"), VALUE, "cannot name a secret"),
    "host": (a_spec("KEY", "http://example.org"), VALUE, "is no host"),
    "no place": (a_spec(header="Authorization: Bearer"), VALUE, "no header with a place"),
    "two places": (a_spec(header="A: {}{}"), VALUE, "no header with a place"),
    "no header": (a_spec(header="Bearer {}"), VALUE, "no header with a place"),
    "split": (a_spec(header="A: {}\r\nB: c"), VALUE, "control character"),
    "framing": (a_spec(header="Content-Length: {}"), VALUE, "cannot be the header"),
}


@pytest.mark.parametrize(("spec", "value", "words"), IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_what_cannot_be_a_secret_is_refused(spec: SecretSpec, value: str, words: str) -> None:
    vault = Vault()
    with pytest.raises(UsageError, match=words):
        vault.add(spec, value)
    assert vault.names() == []


def test_no_two_secrets_set_the_same_header_of_the_same_host() -> None:
    vault = a_vault(a_spec("ONE", "*.example.org"))
    with pytest.raises(UsageError, match="Authorization from the secret ONE"):
        vault.add(a_spec("TWO", "api.example.org"), VALUE)
    vault.add(a_spec("TWO", "api.example.org", header=""), VALUE)
    vault.add(a_spec("THREE", "example.com"), VALUE)

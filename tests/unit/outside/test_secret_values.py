"""A value is in requests and masks, and nowhere a person or a program looks."""

import copy
import logging
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.outside.facts import SecretSource, SecretSpec
from branchpoint_vmruntime.outside.sources import Secret, checked, from_file
from branchpoint_vmruntime.outside.vault import Vault

VALUE = "f6a5e0c4-never-shown"
HOSTS = ("api.example.org",)


def shown(error: BaseException) -> str:
    """The traceback as the most talkative debugger prints it, from the runtime's frames on."""
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    for each in (told, told.__cause__, told.__context__):
        if each is not None:
            each.stack[:] = [frame for frame in each.stack if frame.filename != __file__]
    return "".join(told.format())


def test_a_secret_does_not_show_its_value() -> None:
    secret = Secret(VALUE.encode())
    assert {repr(secret), str(secret), f"{secret}", "%s" % secret} == {"<secret>"}  # noqa: UP031
    assert VALUE not in repr([secret, {"a": secret}])


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_secret_cannot_be_pickled_or_copied(copied: Callable[[Secret], object]) -> None:
    with pytest.raises(TypeError, match="not to be copied"):
        copied(Secret(VALUE.encode()))


def test_what_was_injected_does_not_show_its_value() -> None:
    vault = Vault()
    vault.add(SecretSpec(name="KEY", hosts=HOSTS, source=SecretSource()), VALUE)
    injected = vault.inject("main", HOSTS[0], b"/", ())
    assert VALUE.encode() in injected.headers[0][1]
    assert VALUE not in repr(injected) + str(injected)


@pytest.mark.parametrize("value", [f"{VALUE}\n{VALUE}", f" {VALUE}", f"\x00{VALUE}"])
def test_a_refusal_does_not_show_the_value(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(value)
    spec = SecretSpec(name="KEY", hosts=HOSTS, source=SecretSource(file=file))
    with pytest.raises(BranchpointError) as of_file:
        Vault().add(spec)
    with pytest.raises(BranchpointError) as typed_in:
        Vault().add(spec, value)
    monkeypatch.setattr("os.environ", {"KEY": value})
    of_host = SecretSpec(name="KEY", hosts=HOSTS, source=SecretSource(variable="KEY"))
    with pytest.raises(BranchpointError) as of_variable:
        Vault().add(of_host)
    for refused in (of_file, typed_in, of_variable):
        assert "secret" in shown(refused.value)
        assert VALUE not in shown(refused.value)


def test_a_file_that_is_no_text_is_refused_without_showing_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for content in (VALUE.encode() + b"\xff", VALUE.encode() * 4096):
        file.write_bytes(content)
        with pytest.raises(BranchpointError, match="no text of at most 64 KiB") as refused:
            from_file("KEY", file)
        assert VALUE not in shown(refused.value)


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(VALUE)
    with caplog.at_level(logging.DEBUG):
        logging.getLogger(__name__).debug("a record: %s", checked("KEY", Secret.of(VALUE), "here"))
        vault = Vault()
        vault.add(SecretSpec(name="KEY", hosts=HOSTS, source=SecretSource(file=file)))
        injected = vault.inject("main", HOSTS[0], b"/", ())
        logging.getLogger(__name__).debug("another: %s", injected)
    assert "a record: <secret>" in caplog.text
    assert VALUE not in caplog.text

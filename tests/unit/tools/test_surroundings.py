"""The tests test this checkout, whatever the user has set up and whatever a CI runs them in."""

import sys
from pathlib import Path

import pytest
from tests.architecture.house import ROOT
from tests.support.surroundings import foreign_kernel, foreign_module, settle

import branchpoint_vmruntime


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, "127.0.0.1,localhost"),
        ({"no_proxy": "a.example, localhost"}, "a.example,localhost,127.0.0.1"),
        ({"NO_PROXY": "a.example"}, "a.example,127.0.0.1,localhost"),
        ({"no_proxy": "", "NO_PROXY": "a.example"}, "a.example,127.0.0.1,localhost"),
        ({"no_proxy": "*"}, "*"),
    ],
)
def test_servers_of_this_host_are_asked_without_a_proxy(before: dict[str, str], after: str) -> None:
    environment = {**before, "http_proxy": "http://proxy.example:3128"}
    settle(environment)
    assert (environment["no_proxy"], environment["NO_PROXY"]) == (after, after)
    assert environment["http_proxy"] == "http://proxy.example:3128"


def test_jupyter_finds_this_environments_files_before_a_users() -> None:
    environment = {"JUPYTER_PATH": "/other", "JUPYTER_PREFER_ENV_PATH": "0"}
    settle(environment)
    assert "JUPYTER_PATH" not in environment
    assert environment["JUPYTER_PREFER_ENV_PATH"] == "1"


def test_a_module_of_another_checkout_is_told(tmp_path: Path) -> None:
    other = tmp_path / "vmruntime" / "branchpoint_vmruntime" / "__init__.py"
    other.parent.mkdir(parents=True)
    other.touch()
    told = foreign_module(str(other))
    assert told is not None
    assert str(other) in told
    assert str(ROOT) in told


def test_this_checkouts_own_module_is_none_of_another(tmp_path: Path) -> None:
    assert foreign_module(branchpoint_vmruntime.__file__) is None
    (tmp_path / "way").symlink_to(ROOT / "vmruntime")
    assert foreign_module(str(tmp_path / "way" / "branchpoint_vmruntime" / "__init__.py")) is None


@pytest.mark.parametrize("python", [sys.executable, "python", f"{sys.executable}3.99"])
def test_a_kernelspec_of_this_environment_is_taken(python: str) -> None:
    assert foreign_kernel([python, "-P"]) is None


def test_a_kernelspec_of_another_environment_is_told(tmp_path: Path) -> None:
    for python in (str(tmp_path / "python"), "/nonexistent/bin/python"):
        told = foreign_kernel([python, "-P"])
        assert told is not None
        assert python in told
        assert "branchpoint setup" in told

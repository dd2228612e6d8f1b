"""The errors: one tree, as drawn, each of which says something."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import branchpoint_vmruntime
from branchpoint_vmruntime import errors
from branchpoint_vmruntime.errors import (
    BranchpointError,
    GuestSilentError,
    UnknownNameError,
)


def drawn_tree() -> dict[str, str | None]:
    """Each error in the drawing, and the one it hangs on."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"(?P<branch>[│├└─ ]*)(?P<name>\w+Error)\b", line):
            depth = len(found["branch"]) // 4
            path[depth:] = [found["name"]]
            parents[found["name"]] = path[depth - 1] if depth else None
    return parents


def every_error() -> list[type[BranchpointError]]:
    """The root and all that descends from it, wherever in the package it is defined."""
    for module in pkgutil.walk_packages(
        branchpoint_vmruntime.__path__, f"{branchpoint_vmruntime.__name__}."
    ):
        importlib.import_module(module.name)
    found: list[type[BranchpointError]] = [BranchpointError]
    for error in found:
        found += error.__subclasses__()
    return [error for error in found if error.__module__.startswith("branchpoint_vmruntime")]


def test_the_tree_drawn_is_the_tree_there_is() -> None:
    real = {
        error.__name__: None if error is BranchpointError else error.__bases__[0].__name__
        for error in every_error()
    }
    assert drawn_tree() == real


def test_every_error_has_one_parent_and_is_defined_with_the_others() -> None:
    for error in every_error():
        assert len(error.__bases__) == 1
        assert error.__module__ == errors.__name__


def made(error: type[BranchpointError]) -> BranchpointError:
    """One of that kind."""
    if error is UnknownNameError:
        return UnknownNameError("branch", "x", ("main",), hint="look")
    if error is GuestSilentError:
        return GuestSilentError("ping", 5.0, Path("console.log"))
    return error("what happened", hint="what to do")


@pytest.mark.parametrize("error", every_error(), ids=lambda error: error.__name__)
def test_every_error_says_what_happened_and_what_to_do(error: type[BranchpointError]) -> None:
    instance = made(error)
    assert str(instance)
    assert instance.hint
    assert inspect.getdoc(error)


def test_an_unknown_name_says_what_there_is() -> None:
    error = UnknownNameError("branch", "x", ("main", "ridge"))
    assert str(error) == "there is no branch 'x'; there is: main, ridge"
    assert (error.kind, error.name, error.known) == ("branch", "x", ("main", "ridge"))


def test_an_unknown_name_where_there_is_nothing_says_so() -> None:
    assert str(UnknownNameError("checkpoint", "x", ())).endswith("there is: none yet")


def test_a_silent_guest_says_what_it_was_asked_how_long_ago_and_where_to_look() -> None:
    error = GuestSilentError("freeze", 30.0, Path("/run/console.log"))
    for fact in ("'freeze'", "30 s", "/run/console.log"):
        assert fact in str(error)

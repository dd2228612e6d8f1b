"""What is imported is declared, and what is declared is used."""

import ast
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from sys import stdlib_module_names

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.architecture.house import ROOT, packages, project

OURS = {path.name for path in packages()} | {"tests"}
# What runs in a machine has what its image holds.
IN_THE_GUEST = {"branchpoint", "branchpoint_guest", "branchpoint_guestkernel"}
# Run as a program: images are built with it.
RUN = {"pip"}
DISTRIBUTIONS = metadata.packages_distributions()


@cache
def imported(folder: Path) -> set[str]:
    """The distributions, not ours and not Python's own, that the modules of a folder import."""
    tops = {
        name.partition(".")[0]
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in names_in(node)
    }
    return {
        canonicalize_name(DISTRIBUTIONS.get(top, [top])[0])
        for top in tops - OURS - stdlib_module_names
    }


def names_in(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (each.name for each in names)
        case ast.ImportFrom(module=str(module), level=0):
            yield module
        case _:
            pass


def declared(*extras: str) -> set[str]:
    facts = project()["project"]
    lists = [facts["dependencies"], *(facts["optional-dependencies"][it] for it in extras)]
    return {canonicalize_name(Requirement(text).name) for each in lists for text in each}


@pytest.mark.parametrize(
    "package", [it for it in packages() if it.name not in IN_THE_GUEST], ids=lambda it: it.name
)
def test_what_a_package_imports_is_declared(package: Path) -> None:
    extras = ("lab",) if package.name == "branchpoint_nbext" else ()
    assert imported(package) - declared(*extras) == set()


def test_what_the_tests_import_is_declared() -> None:
    assert imported(ROOT / "tests") - declared("dev") == set()


def test_what_the_server_extension_needs_is_there_for_its_tests() -> None:
    assert declared("lab") - declared("dev") == set()


def test_what_is_declared_is_used() -> None:
    used = {name for it in packages() if it.name not in IN_THE_GUEST for name in imported(it)}
    assert declared() - used - RUN == set()

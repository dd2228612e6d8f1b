"""The reference pages name what there is: every magic as it is typed, every public name."""

import re
from types import ModuleType

import pytest
from tests.architecture.house import ROOT

import branchpoint
import branchpoint_cli
import branchpoint_guest
import branchpoint_kernel
import branchpoint_nbext
import branchpoint_vmruntime
from branchpoint_kernel.manual import MAGICS

REFERENCE = ROOT / "docs" / "reference"


def public_names(package: ModuleType) -> set[str]:
    """What `from package import ...` offers, but for its modules."""
    return {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }


def documented_names(page: str, heading: str) -> set[str]:
    """The first column of the table of public names, below a heading of a page."""
    section = (REFERENCE / page).read_text().partition(f"## {heading}")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", section, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"\w+", cell)}


def test_the_public_names_of_the_runtime_are_those_documented() -> None:
    assert public_names(branchpoint_vmruntime) == documented_names("runtime.md", "Public names")


def test_the_public_names_of_the_guests_module_are_those_documented() -> None:
    assert set(branchpoint.__all__) == documented_names("guest.md", "Functions")


@pytest.mark.parametrize(
    "package", [branchpoint_cli, branchpoint_guest, branchpoint_kernel], ids=lambda p: p.__name__
)
def test_the_other_packages_offer_no_names(package: ModuleType) -> None:
    assert public_names(package) == set()


def test_the_server_extension_offers_only_what_jupyter_asks_for() -> None:
    offered = {name for name in vars(branchpoint_nbext) if name.startswith("_jupyter")}
    assert offered == {"_jupyter_labextension_paths", "_jupyter_server_extension_points"}
    assert public_names(branchpoint_nbext) == set()


@pytest.mark.parametrize("name", list(MAGICS))
def test_every_magic_is_documented_as_it_is_typed(name: str) -> None:
    assert f"### `{MAGICS[name].usage}`\n" in (REFERENCE / "magics.md").read_text()


@pytest.mark.parametrize("name", list(MAGICS))
def test_the_readme_lists_every_magic(name: str) -> None:
    usage = MAGICS[name].usage.replace("|", "\\|")
    assert f"| `{usage}` |" in (ROOT / "README.md").read_text()


def test_every_page_that_is_linked_from_the_readme_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []

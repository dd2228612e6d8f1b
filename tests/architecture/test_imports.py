"""Who may import whom: the contracts hold, and each would fail if it were broken."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.architecture.house import ROOT, SOURCE_FOLDERS, project

LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")
CONTRACTS = [contract["name"] for contract in project()["tool"]["importlinter"]["contracts"]]

# For each contract, a file and an import that has no business there.
OFFENCES = {
    "Inside the runtime, imports point down": (
        "vmruntime/branchpoint_vmruntime/memory/dirty.py",
        "import branchpoint_vmruntime.machine",
    ),
    "Inside the kernel, nothing but its start opens a runtime": (
        "kernel/branchpoint_kernel/relay.py",
        "import branchpoint_vmruntime.runtime",
    ),
    "The runtime knows no Jupyter": (
        "vmruntime/branchpoint_vmruntime/errors.py",
        "import jupyter_client",
    ),
    "Kernel and notebook extension do not import each other": (
        "nbext/branchpoint_nbext/__init__.py",
        "import branchpoint_kernel",
    ),
    "Guest code imports nothing of the host's": (
        "vmruntime/branchpoint_guest/wire.py",
        "import branchpoint_vmruntime.errors",
    ),
    "The host knows the guest only by its wire format": (
        "vmruntime/branchpoint_vmruntime/errors.py",
        "import branchpoint_guest.guestd",
    ),
}


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts on the packages below `root`."""
    source = os.pathsep.join(str(root / name) for name in SOURCE_FOLDERS)
    return subprocess.run(
        [LINT_IMPORTS, "--no-cache", "--no-logo", root / "pyproject.toml"],
        cwd=root,
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_contract_holds() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_contract_has_an_offence_to_be_tried_with() -> None:
    assert sorted(OFFENCES) == sorted(CONTRACTS)


def test_the_host_is_kept_from_every_guest_module_but_the_wire() -> None:
    guest = ROOT / "vmruntime" / "branchpoint_guest"
    modules = {f"branchpoint_guest.{path.stem}" for path in guest.glob("[!_]*.py")}
    (contract,) = (
        each
        for each in project()["tool"]["importlinter"]["contracts"]
        if each["name"] == "The host knows the guest only by its wire format"
    )
    assert modules - set(contract["forbidden_modules"]) == {
        "branchpoint_guest.exec_frames",
        "branchpoint_guest.mux",
        "branchpoint_guest.wire",
    }


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_broken_contract_is_found(tmp_path: Path, contract: str) -> None:
    for name in SOURCE_FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__", "node_modules", "labextension")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    file, offence = OFFENCES[contract]
    with (tmp_path / file).open("a") as offender:
        offender.write(f"\n{offence}\n")
    result = lint_imports(tmp_path)
    assert f"{contract} BROKEN" in result.stdout, result.stdout + result.stderr

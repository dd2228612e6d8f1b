"""Rules of the house that no linter holds."""

import configparser
import json
import re

import pytest
from tests.architecture.house import ROOT, packages, project, tracked_files

MOST_LINES = 400
# Put together here, so that this file does not name them either.
REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("debian", "org"),
        ("ubuntu", "com"),
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("anaconda", "org"),
        ("docker", "io"),
    )
]


def test_no_file_of_code_is_over_the_limit() -> None:
    code = [path for path in tracked_files() if path.suffix in (".py", ".ts", ".css", ".sh")]
    lengths = {path: len(path.read_text().splitlines()) for path in code}
    over = {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > MOST_LINES}
    assert not over


def test_nothing_of_the_host_maps_a_file() -> None:
    # Where a mapping cannot give a page, its process is killed, and an owner's machines with it.
    inside = {"branchpoint", "branchpoint_guest", "branchpoint_guestkernel"}
    code = [
        path for folder in packages() if folder.name not in inside for path in folder.rglob("*.py")
    ]
    assert code
    mapped = re.compile(r"\bmmap\.mmap\((?!-1,)|\bmemmap\(|mmap_mode|mmap_size")
    assert [str(path.relative_to(ROOT)) for path in code if mapped.search(path.read_text())] == []


@pytest.mark.parametrize("host", REGISTRIES)
def test_no_file_names_a_registry(host: str) -> None:
    naming = [
        str(path.relative_to(ROOT))
        for path in tracked_files()
        if host.encode() in path.read_bytes()
    ]
    assert not naming


def test_the_lock_of_the_front_ends_packages_tells_of_no_place_to_fetch_them() -> None:
    lock = json.loads((ROOT / "nbext" / "package-lock.json").read_text())
    packages = {name: facts for name, facts in lock["packages"].items() if name}
    assert packages
    assert [name for name, facts in packages.items() if "resolved" in facts] == []
    assert [name for name, facts in packages.items() if "integrity" not in facts] == []


def test_the_front_end_has_the_version_of_the_distribution() -> None:
    front_end = json.loads((ROOT / "nbext" / "package.json").read_text())
    assert front_end["version"] == project()["project"]["version"]


def test_every_file_that_is_to_be_installed_is_there() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = config["options.data_files"].values()
    files = [file.strip() for value in listed for file in value.replace("\n", ",").split(",")]
    assert files
    assert [file for file in files if file and not any(ROOT.glob(file))] == []


def test_jupyter_starts_the_kernel_without_the_notebooks_folder_on_its_path() -> None:
    spec = json.loads((ROOT / "kernel" / "kernelspec" / "kernel.json").read_text())
    argv = spec["argv"]
    # Without -P a json.py beside the notebook would run in the host process.
    assert argv[1:4] == ["-P", "-m", "branchpoint_kernel"]


def test_the_kernel_is_interrupted_by_message() -> None:
    spec = json.loads((ROOT / "kernel" / "kernelspec" / "kernel.json").read_text())
    assert spec["interrupt_mode"] == "message"

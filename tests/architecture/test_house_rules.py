"""Rules of the house that no linter holds."""

import configparser
import json

import pytest
from tests.architecture.house import ROOT, modules, tracked_files

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


def test_no_module_is_over_the_limit() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in modules()}
    over = {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > MOST_LINES}
    assert not over


@pytest.mark.parametrize("host", REGISTRIES)
def test_no_file_names_a_registry(host: str) -> None:
    naming = [
        str(path.relative_to(ROOT))
        for path in tracked_files()
        if host.encode() in path.read_bytes()
    ]
    assert not naming


def test_every_file_that_is_to_be_installed_is_there() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = config["options.data_files"].values()
    files = [file.strip() for value in listed for file in value.replace("\n", ",").split(",")]
    assert files
    assert [file for file in files if file and not (ROOT / file).is_file()] == []


def test_jupyter_starts_the_kernel_without_the_notebooks_folder_on_its_path() -> None:
    spec = json.loads((ROOT / "kernel" / "kernelspec" / "kernel.json").read_text())
    argv = spec["argv"]
    # Without -P a json.py beside the notebook would run in the host process.
    assert argv[1:4] == ["-P", "-m", "branchpoint_kernel"]


def test_the_kernel_is_interrupted_by_message() -> None:
    spec = json.loads((ROOT / "kernel" / "kernelspec" / "kernel.json").read_text())
    assert spec["interrupt_mode"] == "message"

"""What is slow to import is not imported before it is wanted."""

import subprocess
import sys

import pytest

SLOW = ("anywidget", "ipywidgets", "matplotlib")


def imported_by(module: str, looked_for: tuple[str, ...]) -> list[str]:
    """Which of those are there once a module is."""
    look = f"import sys, {module}; print(*[it for it in {looked_for} if it in sys.modules])"
    argv = [sys.executable, "-P", "-c", look]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()


@pytest.mark.parametrize("module", ["branchpoint_kernel.__main__", "branchpoint_nbext.extension"])
def test_neither_a_kernel_nor_a_server_waits_for_what_draws(module: str) -> None:
    assert imported_by(module, SLOW) == []


def test_what_is_looked_for_is_seen_where_it_is() -> None:
    assert imported_by("matplotlib", ("matplotlib",)) == ["matplotlib"]

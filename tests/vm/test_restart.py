"""A restart gives a fresh machine in the same session, and the same notebook runs again."""

import pytest
from tests.conftest import StartKernel

pytestmark = pytest.mark.vm


def test_named_forks_can_be_made_again_after_a_restart_and_the_earlier_ones_reopened(
    start_kernel: StartKernel,
) -> None:
    with start_kernel("restarted") as kernel:
        kernel.run("x = 'first'")
        kernel.run("%checkpoint loaded")
        kernel.run("%fork 1 --names ridge")
        kernel.run("%%branch ridge\nx = 'from the first ridge'")
        kernel.run("%switch ridge")
        kernel.run("%checkpoint fitted")
    with start_kernel("restarted") as kernel:
        assert "NameError" in kernel.run("x", expect="error").text
        kernel.run("%fork 1 --names ridge")
        kernel.run("%switch ridge~1")
        assert kernel.value("x") == "from the first ridge"
        kernel.run("%rollback loaded")
        assert kernel.value("x") == "first"


def test_a_branch_that_saved_nothing_is_not_kept_over_a_restart(start_kernel: StartKernel) -> None:
    with start_kernel("unsaved") as kernel:
        kernel.run("x = 1")
    with start_kernel("unsaved") as kernel:
        assert "main~1" not in kernel.run("%branches").text

"""What a notebook says of its machine in its own metadata, as the kernel started for it has it."""

import json
from pathlib import Path

import pytest
from tests.conftest import StartKernel

pytestmark = pytest.mark.vm


def notebook(folder: Path, said: dict[str, object]) -> str:
    """Where a notebook is that says this."""
    file = folder / "asked.ipynb"
    metadata = {"branchpoint": said}
    file.write_text(json.dumps({"metadata": metadata, "nbformat": 4, "nbformat_minor": 5}))
    return str(file)


def test_a_limit_in_the_notebook_holds(start_kernel: StartKernel, tmp_path: Path) -> None:
    asked = notebook(tmp_path, {"budgets": {"machines": 1}})
    with start_kernel("limited", JPY_SESSION_NAME=asked) as kernel:
        assert kernel.run("1 + 1").text.strip() == "2"
        refused = kernel.run("%fork 1", expect="error")
    assert "1 machine" in refused.text


def test_a_notebook_that_would_open_its_machine_is_told_where_that_belongs(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    asked = notebook(tmp_path, {"egress": {"allow": ["pip"]}})
    with start_kernel("opening", JPY_SESSION_NAME=asked) as kernel:
        refused = kernel.run("1 + 1", expect="error")
    assert f"{asked}, line " in refused.text
    assert "branchpoint.yaml beside the notebook" in refused.text
    assert "Traceback" not in refused.text

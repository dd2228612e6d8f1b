"""The demo runner, on small notebooks under the ordinary Python kernel."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
from nbclient import NotebookClient
from rich.console import Console
from tests.support.kernel_ports import kernels_get_free_ports
from tests.unit.lineage.facts import SESSION, a_base, a_branch, a_checkpoint, a_session
from traitlets import Integer

from branchpoint_cli import demo
from branchpoint_cli.demo import run_demo
from branchpoint_vmruntime.errors import MissingToolError, UsageError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage.journal import Journal

LEAVES_A_RECORD = dedent(
    f"""
    from IPython.display import display
    record = {{"op": "checkpoint", "session": "{SESSION}", "branch": "main", "total_ms": 120.0,
              "checkpoint": {{"label": "loaded", "paused_ms": 46.0, "memory_bytes": 5000000}}}}
    display({{"application/vnd.branchpoint+json": record, "text/plain": "saved"}}, raw=True)
    """
)
HOLDS = "assert 1 + 1 == 2"
FAILS = "assert 1 + 1 == 3, 'the counter says 2'"


@pytest.fixture(autouse=True)
def free_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels_get_free_ports(monkeypatch)


class HastyClient(NotebookClient):
    """Waits for nothing that comes after a reply, unless it is told to."""

    iopub_timeout = Integer(0)


def last_in_place_of_idle(source: str) -> str:
    """A cell that runs the source once its reply is there, and is never idle if that does not."""
    return (
        dedent(
            """
            kernel = get_ipython().kernel
            publish = kernel._publish_status
            def publish_late(status, *others, **fields):
                if status != "idle":
                    return publish(status, *others, **fields)
                kernel._publish_status = publish
                def idle():
                    publish(status, *others, **fields)
            """
        )
        + indent(source, "    ")
        + "\nkernel._publish_status = publish_late"
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home whose journal knows the session of the record."""
    monkeypatch.setenv("BRANCHPOINT_HOME", str(tmp_path / "home"))
    home = Home.default()
    home.ensure()
    with Journal.open(home.database) as journal:
        journal.add_session(a_session())
        journal.add_checkpoint(a_base(), advance=None)
        journal.put_branch(a_branch())
        journal.add_checkpoint(a_checkpoint("loaded"), advance=a_branch().name)
    return home


@pytest.fixture
def write_notebook(tmp_path: Path) -> Callable[..., Path]:
    def write(*sources: str, kernel: str = "python3") -> Path:
        cells: list[dict[str, Any]] = []
        for number, source in enumerate(sources):
            words: dict[str, Any] = {
                "cell_type": "markdown",
                "id": f"words-{number}",
                "metadata": {},
            }
            code: dict[str, Any] = {"cell_type": "code", "id": f"cell-{number}", "outputs": []}
            cells.append(words | {"source": f"## Step {number}"})
            cells.append(code | {"source": source, "execution_count": None, "metadata": {}})
        metadata = {"kernelspec": {"name": kernel, "display_name": kernel}}
        notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
        path = tmp_path / "notebook.ipynb"
        path.write_text(json.dumps(notebook))
        return path

    return write


def run(notebook: Path, output: Path) -> tuple[int, str]:
    said = io.StringIO()
    code = run_demo(notebook, output, console=Console(file=said, width=120))
    return code, said.getvalue()


@pytest.mark.usefixtures("home")
def test_a_notebook_whose_proofs_hold_leaves_everything_behind(
    tmp_path: Path, write_notebook: Callable[..., Path]
) -> None:
    output = tmp_path / "out"
    code, said = run(write_notebook(LEAVES_A_RECORD, HOLDS), output)
    assert code == 0, said
    written = {path.name for path in output.iterdir() if path.stat().st_size}
    assert written == {
        "notebook.ipynb",
        "notebook.html",
        "lineage.png",
        "costs.csv",
        "costs.md",
    }
    assert "46 ms" in said
    assert "Step 1" in said


@pytest.mark.usefixtures("home")
def test_a_false_proof_fails_the_demo_and_is_named(
    tmp_path: Path, write_notebook: Callable[..., Path]
) -> None:
    output = tmp_path / "out"
    code, said = run(write_notebook(LEAVES_A_RECORD, FAILS, "print('never run')"), output)
    assert code == 1
    assert "cell 'cell-1' (Step 1): AssertionError: the counter says 2" in said
    assert "never run" not in said
    assert "AssertionError" in (output / "notebook.ipynb").read_text()
    assert not (output / "lineage.png").exists()


@pytest.mark.usefixtures("home")
def test_a_notebook_that_checkpoints_nothing_fails_the_demo(
    tmp_path: Path, write_notebook: Callable[..., Path]
) -> None:
    code, said = run(write_notebook(HOLDS), tmp_path / "out")
    assert code == 1
    assert "nothing was checkpointed" in said


@pytest.mark.usefixtures("home")
def test_what_a_cell_shows_is_waited_for_after_its_reply(
    tmp_path: Path, write_notebook: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "NotebookClient", HastyClient)
    late = last_in_place_of_idle(f"{LEAVES_A_RECORD}\nidle()")
    code, said = run(write_notebook(late), tmp_path / "out")
    assert code == 0, said
    assert "46 ms" in said


@pytest.mark.usefixtures("home")
def test_a_cell_whose_output_never_ends_fails_the_demo_and_is_named(
    tmp_path: Path, write_notebook: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "_CELL_TIMEOUT_S", 1)
    code, said = run(
        write_notebook(LEAVES_A_RECORD + last_in_place_of_idle("pass")), tmp_path / "out"
    )
    assert code == 1, said
    assert "cell 'cell-0' (Step 0)" in said


@pytest.mark.usefixtures("home")
def test_a_kernel_that_dies_fails_the_demo(
    tmp_path: Path, write_notebook: Callable[..., Path]
) -> None:
    code, said = run(write_notebook("import os; os._exit(3)"), tmp_path / "out")
    assert code == 1
    assert "Step 0" in said


def test_a_kernel_that_is_not_installed_is_said_with_what_to_do(
    tmp_path: Path, write_notebook: Callable[..., Path]
) -> None:
    notebook = write_notebook(HOLDS, kernel="no-such-kernel")
    with pytest.raises(MissingToolError, match="no-such-kernel") as caught:
        run(notebook, tmp_path / "out")
    assert "branchpoint setup" in caught.value.hint


@pytest.mark.usefixtures("home")
def test_each_run_is_a_session_of_its_own(
    tmp_path: Path, write_notebook: Callable[..., Path]
) -> None:
    notebook = write_notebook(
        LEAVES_A_RECORD, "import os; print(os.environ['BRANCHPOINT_SESSION'])"
    )
    keys: set[str] = set()
    for _ in range(2):
        assert run(notebook, tmp_path / "out")[0] == 0
        ran = json.loads((tmp_path / "out" / "notebook.ipynb").read_text())
        keys.add("".join(ran["cells"][-1]["outputs"][0]["text"]))
    assert len(keys) == 2


def test_a_notebook_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing\.ipynb"):
        run(tmp_path / "missing.ipynb", tmp_path / "out")

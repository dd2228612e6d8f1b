"""Depth and breadth of the tree, on real machines: each branch and each checkpoint is its own."""

import pytest
from tests.support.live_kernel import LiveKernel, wait_until

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointKind, SessionId
from branchpoint_vmruntime.lineage.journal import Journal

pytestmark = pytest.mark.vm

DEPTH = 30
# In a cell: until all that is sent behind it is there.
HELD = "\n__import__('time').sleep(2)"
# Between two checkpoints a machine only runs one small cell, however deep they are.
FLAT_FACTOR = 4


def checkpoints(home: Home, kernel: LiveKernel) -> list[Checkpoint]:
    """As they are on record, read from the outside."""
    session = SessionId(kernel.run("%branches").record["session"])
    with Journal.read(home.database) as journal:
        return journal.checkpoints(session)


def labels(kernel: LiveKernel) -> list[str]:
    return [point["label"] for point in kernel.run("%checkpoints").record["checkpoints"]]


def states(kernel: LiveKernel) -> dict[str, str]:
    return {it["name"]: it["state"] for it in kernel.run("%branches").record["branches"]}


def current(kernel: LiveKernel) -> str:
    return kernel.run("%branches").record["branch"]


@pytest.fixture(scope="module")
def deep(shared_kernel: LiveKernel) -> LiveKernel:
    """A kernel with 30 checkpoints in a row: variable and file `step` hold each one's number."""
    for step in range(1, DEPTH + 1):
        shared_kernel.run(
            f"step = {step}\nopen('step', 'w').write(str(step));\n%checkpoint s{step}"
        )
    return shared_kernel


def test_thirty_checkpoints_in_a_row_stay_flat(
    home: Home, deep: LiveKernel, request: pytest.FixtureRequest
) -> None:
    costs = [it.cost for it in checkpoints(home, deep) if it.kind is CheckpointKind.USER]
    for figure in ("paused_ms", "dirty_bytes", "memory_bytes", "disk_bytes"):
        seen = [getattr(cost, figure) for cost in costs]
        # For whoever reads the report; what they are judged by is what was written, not the time.
        request.node.user_properties.append((figure, seen))
    assert len(costs) == DEPTH
    assert costs[-1].dirty_bytes <= FLAT_FACTOR * costs[0].dirty_bytes
    assert costs[-1].memory_bytes <= FLAT_FACTOR * costs[0].memory_bytes
    assert costs[-1].disk_bytes <= FLAT_FACTOR * costs[0].disk_bytes


def test_the_pages_found_written_in_a_machine_only_grow_in_number(
    home: Home, deep: LiveKernel
) -> None:
    points = [it for it in checkpoints(home, deep) if it.kind is CheckpointKind.USER][:DEPTH]
    written = [point.cost.dirty_bytes for point in points]
    assert written == sorted(written)


@pytest.mark.parametrize("step", [1, 15, 30])
def test_each_of_thirty_checkpoints_has_its_own_memory_and_disk(
    deep: LiveKernel, step: int
) -> None:
    deep.run(f"%rollback s{step} --no-safety")
    assert deep.value("step, open('step').read()") == f"{step} {step}"


def test_forks_of_forks_of_forks_each_have_their_own_past(kernel: LiveKernel) -> None:
    kernel.run("path = ['main']")
    for name in ("child", "grandchild", "great-grandchild"):
        kernel.run(f"%fork 1 --names {name}")
        kernel.run(f"%switch {name}")
        kernel.run("path.append(branch.name)")
    paths = kernel.values("*path", ["main", "child", "grandchild", "great-grandchild"])
    assert paths == {
        "main": "main",
        "child": "main child",
        "grandchild": "main child grandchild",
        "great-grandchild": "main child grandchild great-grandchild",
    }


def test_a_rollback_can_be_rolled_back(kernel: LiveKernel) -> None:
    kernel.run("x = 'then'\n%checkpoint then\nx = 'later'")
    safety = kernel.run("%rollback then").record["safety"]
    assert safety == "before-rollback-1"
    assert kernel.value("x") == "then"
    kernel.run(f"%rollback {safety}")
    assert kernel.value("x") == "later"


def test_a_fork_goes_back_to_its_ancestors_checkpoint_alone(kernel: LiveKernel) -> None:
    kernel.run("x = 'old'\n%checkpoint ancestor\nx = 'new'\n%fork 1 --names fork")
    kernel.run("%switch fork")
    assert kernel.value("x") == "new"
    kernel.run("%rollback ancestor")
    assert kernel.values("x, branch.name", ["main", "fork"]) == {
        "main": "new main",
        "fork": "old fork",
    }


def test_switch_continues_as_another_branch_and_the_one_left_runs_on(kernel: LiveKernel) -> None:
    kernel.run("x = 1\n%fork 1 --names other")
    kernel.run("x = 2\n%switch other")
    assert kernel.value("x, branch.name") == "1 other"
    kernel.run("x = 3\n%switch main")
    assert kernel.value("x, branch.name") == "2 main"
    assert states(kernel) == {"main": "live", "other": "live"}


def test_keep_parks_the_others_and_ends_their_machines(kernel: LiveKernel) -> None:
    kernel.run("%fork 2 --names a,b")
    assert len(kernel.machines) == 3
    assert sorted(kernel.run("%keep a").record["parked"]) == ["b", "main"]
    assert current(kernel) == "a"
    assert states(kernel) == {"main": "parked", "a": "live", "b": "parked"}
    assert wait_until(lambda: len(kernel.machines) == 1)


def test_a_parked_branch_continues_from_where_it_was_parked(kernel: LiveKernel) -> None:
    kernel.run("numbers = iter(range(100))\nnext(numbers);\n%fork 1 --names kept")
    kernel.run("next(numbers); next(numbers);\n%keep kept")
    assert kernel.value("next(numbers)") == "1"
    kernel.run("%switch main")
    assert kernel.value("next(numbers), branch.name") == "3 main"
    assert kernel.values("next(numbers)", ["kept"]) == {"kept": "2"}


def test_a_dropped_branch_loses_its_machine_and_its_name_is_free(kernel: LiveKernel) -> None:
    kernel.run("%fork 2 --names a,b")
    kernel.run("%drop a")
    assert states(kernel) == {"main": "live", "b": "live"}
    assert wait_until(lambda: len(kernel.machines) == 2)
    refusal = kernel.run("%switch a", expect="error")
    assert "dropped" in refusal.text
    kernel.run("%fork 1 --names a")
    assert states(kernel)["a"] == "live"


def test_the_current_branch_is_not_dropped(kernel: LiveKernel) -> None:
    kernel.run("x = 1")
    refusal = kernel.run("%drop main", expect="error")
    assert "%switch" in refusal.text
    assert kernel.value("x") == "1"


def test_files_on_the_guests_disk_are_each_branchs_own(kernel: LiveKernel) -> None:
    kernel.run("open('shared', 'w').write('before')\n%fork 2 --names a,b")
    branches = ["main", "a", "b"]
    kernel.in_branches("open('own', 'w').write(branch.name)\nopen('shared', 'a').write('!')", ["a"])
    kernel.in_branches("open('own', 'w').write(branch.name)\n!sync", ["b"])
    seen = kernel.in_branches(
        "import os; print(os.path.exists('own'), open('shared').read())", branches
    )
    assert seen == {"main": "False before", "a": "True before!", "b": "True before"}
    assert kernel.values("open('own').read()", ["a", "b"]) == {"a": "a", "b": "b"}


@pytest.mark.parametrize("label", ["größer", "数据-已加载", "हिन्दी-१"])
def test_labels_may_be_in_any_script(deep: LiveKernel, label: str) -> None:
    deep.run(f"x = 'then'\n%checkpoint {label} --note «naïve»\nx = 'later'")
    assert label in labels(deep)
    deep.run(f"%rollback {label} --no-safety")
    assert deep.value("x") == "then"


def test_a_magic_in_a_cell_sees_the_code_before_it_and_not_the_code_after(
    kernel: LiveKernel,
) -> None:
    cell = kernel.run("x = 1\n%checkpoint mid\nx = 2\n%checkpoint end\nprint('x is', x)")
    assert [record["checkpoint"]["label"] for record in cell.records] == ["mid", "end"]
    assert cell.lines[-1] == "x is 2"
    kernel.run("%rollback mid")
    assert kernel.value("x") == "1"
    kernel.run("%rollback end")
    assert kernel.value("x") == "2"


def test_code_after_a_rollback_in_a_cell_runs_in_the_past(kernel: LiveKernel) -> None:
    kernel.run("x = 1\n%checkpoint one\nx = 2")
    assert kernel.run("x = 3\n%rollback one\nprint('x is', x)").lines[-1] == "x is 1"


def test_run_all_carries_out_magics_in_their_turn(kernel: LiveKernel) -> None:
    cells = kernel.run_all("x = 1", "%checkpoint one", "x = 2", "%checkpoint two", "x = 3")
    assert [cell.status for cell in cells] == ["ok"] * 5
    kernel.run("%rollback one")
    assert kernel.value("x") == "1"
    kernel.run("%rollback two")
    assert kernel.value("x") == "2"


def test_an_error_in_run_all_aborts_magics_and_code_queued_behind_it(kernel: LiveKernel) -> None:
    cells = kernel.run_all(f"x = 1{HELD}", "1 / 0", "%checkpoint never", "x = 2")
    assert [cell.status for cell in cells] == ["ok", "error", "aborted", "aborted"]
    assert labels(kernel) == ["base"]
    assert kernel.value("x") == "1"


def test_a_failing_magic_in_run_all_aborts_what_is_queued_behind_it(kernel: LiveKernel) -> None:
    cells = kernel.run_all(f"x = 1{HELD}", "%rollback nowhere", "%checkpoint never", "x = 2")
    assert [cell.status for cell in cells] == ["ok", "error", "aborted", "aborted"]
    assert "nowhere" in cells[1].text
    assert kernel.value("x") == "1"


def test_a_rollback_in_run_all_drops_what_was_queued_behind_it(kernel: LiveKernel) -> None:
    kernel.run("x = 1\n%checkpoint one")
    cells = kernel.run_all(f"x = 2{HELD}", "%rollback one", "x = 3", "%checkpoint never")
    assert [cell.status for cell in cells] == ["ok", "ok", "aborted", "aborted"]
    assert cells[1].record["dropped_cells"] == 2
    assert kernel.value("x") == "1"

"""Checkpoint, fork and rollback from inside running code, and what becomes of the cell."""

import pytest
from tests.support.live_kernel import LiveKernel

pytestmark = pytest.mark.vm

LOOP = """\
for i in range(3):
    print('pass', i)
    %checkpoint step{i}
print('loop done')
"""
FUNCTION = """\
import branchpoint
moment = branchpoint.checkpoint('inside')
print('came', moment)
number = 41 if moment == 'saved' else 42
"""


def test_a_loop_saves_each_pass_and_a_rollback_to_one_ends_its_cell_quietly(
    shared_kernel: LiveKernel,
) -> None:
    loop = shared_kernel.run(LOOP)
    passes = [line for line in loop.lines if line.startswith("pass")]
    assert passes == ["pass 0", "pass 1", "pass 2"]
    assert "loop done" in loop.text
    for step in (0, 2, 1):
        back = shared_kernel.run(f"%rollback step{step}")
        assert f"back at step{step}" in back.text
        assert "loop done" not in back.text
        assert shared_kernel.value("i") == str(step)


def test_a_function_returns_restored_and_the_cell_runs_on_in_the_one_that_rolled_back(
    shared_kernel: LiveKernel,
) -> None:
    first = shared_kernel.run(FUNCTION)
    assert "came saved" in first.text
    assert shared_kernel.value("number") == "41"
    for _ in range(2):
        back = shared_kernel.run("%rollback inside")
        assert "came restored" in back.text
        assert shared_kernel.value("number") == "42"


def test_code_that_rolls_itself_back_ends_in_its_own_cell(shared_kernel: LiveKernel) -> None:
    shared_kernel.run("import branchpoint, os\nopen('tries', 'w').close()\n%checkpoint clean")
    cell = shared_kernel.run(
        "mine = branchpoint.checkpoint('before')\n"
        "print('moment', mine)\n"
        "if mine == 'saved':\n"
        "    tried = True\n"
        "    branchpoint.rollback('before')\n"
        "print('tried' in globals())"
    )
    assert [line for line in cell.lines if line.startswith("moment")] == [
        "moment saved",
        "moment restored",
    ]
    assert "False" in cell.lines
    left = shared_kernel.run("branchpoint.rollback('clean')\nprint('never')")
    assert "back at clean" in left.text
    assert "never" not in left.text
    assert shared_kernel.value("'mine' in globals()") == "False"


def test_forks_of_a_running_cell_carry_on_and_are_shown_labelled_in_it(
    shared_kernel: LiveKernel,
) -> None:
    shown = {"left": "I am 1", "right": "I am 2"}
    cell = shared_kernel.run_until(
        "b = %fork 2 --names left,right\nprint('I am', b)", lambda cell: cell.sides == shown
    )
    assert "I am 0" in cell.text
    assert shared_kernel.values("b", ["left", "right"]) == {"left": "1", "right": "2"}
    assert shared_kernel.value("b") == "0"


def test_a_fork_in_a_fork_is_shown_beside_it(shared_kernel: LiveKernel) -> None:
    shown = ("main 0 None", "child 1 0", "grandchild 1 1")
    shared_kernel.run_until(
        "import branchpoint\n"
        "outer = branchpoint.fork(1, names=['child'])\n"
        "inner = branchpoint.fork(1, names=['grandchild']) if outer else None\n"
        "print(branchpoint.identity().name, outer, inner)",
        lambda cell: all(line in cell.text for line in shown),
    )


def test_the_shell_command_saves_and_says_how_it_came_back(shared_kernel: LiveKernel) -> None:
    cell = shared_kernel.run("lines = !branchpoint checkpoint from-shell\nprint(lines[-1])")
    assert "saved" in cell.lines
    assert "restored" in shared_kernel.run("%rollback from-shell").lines


def test_a_call_from_another_branch_works_on_that_branch(shared_kernel: LiveKernel) -> None:
    shared_kernel.run("%fork 1 --names elsewhere")
    shared_kernel.run("%%branch elsewhere\nimport branchpoint; branchpoint.checkpoint('of-other')")
    points = {
        p["label"]: p["branch"] for p in shared_kernel.run("%checkpoints").record["checkpoints"]
    }
    assert points["of-other"] == "elsewhere"


def test_a_refusal_comes_back_in_words_and_the_code_goes_on(shared_kernel: LiveKernel) -> None:
    cell = shared_kernel.run(
        "import branchpoint\n"
        "try:\n"
        "    branchpoint.rollback('nowhere')\n"
        "except branchpoint.BranchpointError as error:\n"
        "    print('refused:', error)"
    )
    assert "refused: there is no checkpoint 'nowhere'" in cell.text


def test_an_interrupt_reaches_what_is_carried_on(shared_kernel: LiveKernel) -> None:
    shared_kernel.run(
        "import branchpoint, time\n"
        "if branchpoint.checkpoint('patient') == 'restored':\n"
        "    print('waiting', flush=True)\n"
        "    time.sleep(600)"
    )
    back = shared_kernel.start("%rollback patient")
    shared_kernel.wait_for(back, lambda cell: "waiting" in cell.text)
    shared_kernel.manager.interrupt_kernel()
    assert shared_kernel.finish(back).error_name == "KeyboardInterrupt"
    assert shared_kernel.value("1 + 1") == "2"


def test_forks_from_a_checkpoint_inside_a_cell_carry_on_in_the_cell_that_forks(
    shared_kernel: LiveKernel,
) -> None:
    shared_kernel.run(
        "import branchpoint\nmoment = branchpoint.checkpoint('fan')\nprint('came', moment)"
    )
    shown = {"one": "came restored", "two": "came restored"}
    shared_kernel.run_until("%fork 2 --from fan --names one,two", lambda cell: cell.sides == shown)

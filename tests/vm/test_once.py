"""`branchpoint.once` in real machines: one effect, whatever is rolled back or forked."""

import pytest
from tests.support.live_kernel import LiveKernel

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.ledger import Decision, EntryKind, OutcomeState
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.lineage.journal import Journal

pytestmark = pytest.mark.vm

ORDER = """\
import branchpoint, random
def order():
    print('ordering')
    return random.random()
receipt = branchpoint.once('order', order)
print('receipt', receipt)
"""
SAVED_INSIDE = """\
def pay():
    print('paying')
    branchpoint.checkpoint('inside')
    print('went on')
    return 7
print('paid', branchpoint.once('pay', pay))
"""
SAVED_INSIDE_A_TASK = """\
async def send():
    print('sending')
    branchpoint.checkpoint('inside-task')
    print('went on')
    return 8
print('sent', await branchpoint.once('send', send))
"""
SCRIPT = """\
import branchpoint
def act():
    branchpoint.checkpoint('script')
    print('went on')
    return 9
print('gave', branchpoint.once('script', act))
"""
CUT_OFF = """\
def cut():
    branchpoint.rollback('clean')
branchpoint.once('cut', cut)
"""


def states(home: Home, key: str) -> list[OutcomeState | None]:
    """How each run of a function under that key has ended, in the order they were begun."""
    with Journal.read(home.database) as journal, Ledger.read(home.ledger) as ledger:
        return [
            entry.outcome and entry.outcome.state
            for session in journal.sessions()
            for entry in ledger.under_key(session.id, EntryKind.ONCE, key)
            if entry.draft.decision is Decision.ALLOWED
        ]


def test_the_result_is_given_again_after_a_rollback_and_in_forks(
    home: Home, shared_kernel: LiveKernel
) -> None:
    shared_kernel.run("%checkpoint start")
    first = shared_kernel.run(ORDER)
    assert first.lines[0] == "ordering"
    receipt = first.lines[1]
    shared_kernel.run("%rollback start")
    assert shared_kernel.run(ORDER).lines == [receipt]
    shared_kernel.run("%rollback start")
    shared_kernel.run("%fork 1 --names left")
    assert shared_kernel.in_branches(ORDER, ["left"]) == {"left": receipt}
    assert states(home, "order") == [OutcomeState.DONE]


@pytest.mark.parametrize(
    ("code", "label", "key", "last"),
    [
        (SAVED_INSIDE, "inside", "pay", "paid 7"),
        (SAVED_INSIDE_A_TASK, "inside-task", "send", "sent 8"),
    ],
)
def test_a_machine_woken_inside_the_function_does_not_go_on_with_it(
    home: Home, shared_kernel: LiveKernel, code: str, label: str, key: str, last: str
) -> None:
    shared_kernel.run("import branchpoint")
    first = shared_kernel.run(code)
    assert "went on" in first.lines
    assert last in first.lines
    back = shared_kernel.run(f"%rollback {label}")
    assert last in back.lines
    assert "went on" not in back.lines
    assert states(home, key) == [OutcomeState.DONE]


def test_a_fork_made_inside_the_function_gets_what_its_parent_returns(
    home: Home, shared_kernel: LiveKernel
) -> None:
    code = "index = branchpoint.once('fork', lambda: branchpoint.fork(1, names=['right']))"
    shared_kernel.run(f"import branchpoint\n{code}\nprint('carried on')")
    assert shared_kernel.values("index", ["main", "right"]) == {"main": "0", "right": "0"}
    assert states(home, "fork") == [OutcomeState.DONE]


def test_what_was_cut_off_is_unknown_in_words_until_it_is_accepted_or_retried(
    home: Home, shared_kernel: LiveKernel
) -> None:
    shared_kernel.run("import branchpoint\n%checkpoint clean")
    shared_kernel.run(CUT_OFF)
    ask = "print('gives', branchpoint.once('cut', lambda: 'again'))"
    unknown = shared_kernel.run(ask, expect="error")
    assert unknown.error_name == "UnknownOutcomeError"
    assert "'cut' was begun on branch main at" in unknown.text
    assert "retry=True" in unknown.text
    assert states(home, "cut") == [OutcomeState.UNKNOWN]
    shared_kernel.run("branchpoint.accept('cut', 'as I saw')")
    assert shared_kernel.run(ask).lines == ["gives as I saw"]
    shared_kernel.run(CUT_OFF.replace("'cut'", "'again'"))
    retried = shared_kernel.run("print(branchpoint.once('again', lambda: 5, retry=True))")
    assert retried.lines == ["5"]
    assert states(home, "again") == [OutcomeState.DONE, OutcomeState.UNKNOWN]


def test_a_script_is_stopped_in_its_middle_too_and_a_killed_one_leaves_nobody_waiting(
    home: Home, shared_kernel: LiveKernel
) -> None:
    shared_kernel.run("import branchpoint")
    shared_kernel.run(f"open('script.py', 'w').write({SCRIPT!r})")
    run = "print(subprocess.run([sys.executable, 'script.py'], capture_output=True).stdout)"
    first = shared_kernel.run(f"import subprocess, sys\n{run}")
    assert "b'went on\\ngave 9\\n'" in first.lines
    back = shared_kernel.run("%rollback script")
    assert "b'gave 9\\n'" in back.lines
    assert states(home, "script") == [OutcomeState.DONE]
    killed = "import branchpoint, os; branchpoint.once('killed', lambda: os.kill(os.getpid(), 9))"
    shared_kernel.run(f"subprocess.run([sys.executable, '-c', {killed!r}])")
    later = shared_kernel.run("branchpoint.once('killed', print)", expect="error")
    assert later.error_name == "UnknownOutcomeError"

"""A kernel that is not Python, Bash's, is relayed, forked, rolled back and calls for itself."""

from collections.abc import Generator
from typing import Any

import pytest
from tests.support.live_kernel import LiveKernel, live_kernel

from branchpoint_vmruntime.home import Home

pytestmark = pytest.mark.vm

MANIFEST = 'kernel: [python3, -m, bash_kernel, -f, "{connection_file}"]\n'


@pytest.fixture(scope="module")
def bash(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Generator[LiveKernel]:
    """A Bash kernel in a microVM, as the manifest beside a notebook asks for it."""
    assert home.database.exists()
    folder = tmp_path_factory.mktemp("bash")
    (folder / "branchpoint.yaml").write_text(MANIFEST)
    with live_kernel("bash", cwd=folder) as started:
        # The first machine of this kind is booted meanwhile.
        started.run("true")
        yield started


def answer(bash: LiveKernel, request: str) -> dict[str, Any]:
    """The content of the reply to a request on the shell."""
    while (reply := bash.client.get_shell_msg(timeout=60))["parent_header"]["msg_id"] != request:
        pass
    return reply["content"]


def test_it_speaks_bash_and_says_so(bash: LiveKernel) -> None:
    assert bash.run("echo $((6 * 7)) in $BASH").text == "42 in /usr/bin/bash\n"
    facts = answer(bash, bash.client.kernel_info())["language_info"]
    assert (facts["name"], facts["file_extension"]) == ("bash", ".sh")


def test_it_completes_its_own_words(bash: LiveKernel) -> None:
    bash.run("forty_two=42")
    completed = answer(bash, bash.client.complete("echo $forty_", 12))
    assert "$forty_two" in completed["matches"]


def test_its_errors_end_a_cell(bash: LiveKernel) -> None:
    cell = bash.run("echo before; false", expect="error")
    assert cell.text.splitlines()[0] == "before"


def test_a_rollback_brings_back_its_variables_and_its_processes(bash: LiveKernel) -> None:
    bash.run("n=7; sleep 5000 & child=$!")
    bash.run("%checkpoint seven")
    bash.run("n=3; kill -9 $child; wait $child 2>/dev/null; true")
    bash.run("%rollback seven")
    assert bash.run("echo $n; kill -0 $child && echo alive").text == "7\nalive\n"


def test_its_forks_run_a_cell_each_for_themselves(bash: LiveKernel) -> None:
    bash.run("n=1")
    bash.run("%fork 2 --names left,right")
    assert bash.in_branches("n=$((n + $BASHPID % 1 + 1)); echo $n", ["left", "right"]) == {
        "left": "2",
        "right": "2",
    }
    assert bash.run("echo $n").text == "1\n"
    bash.run("%drop left right")


def test_a_line_of_ours_amid_its_code_is_its_own_matter(bash: LiveKernel) -> None:
    cell = bash.run("echo before\n%fork 3", expect="error")
    assert "before" in cell.text
    assert "%fork: no such job" in cell.text
    assert cell.records == []


def test_its_scripts_make_checkpoints_and_learn_that_they_are_back(bash: LiveKernel) -> None:
    bash.run("rm -f /tmp/after")
    first = bash.run("branchpoint checkpoint inside | tail -n 1; test -e /tmp/after; echo $?")
    assert first.text.split() == ["saved", "1"]
    bash.run("touch /tmp/after")
    again = bash.run("%rollback inside")
    assert again.text.split()[-2:] == ["restored", "1"]


def test_its_scripts_fork_and_know_who_they_are(bash: LiveKernel) -> None:
    cell = bash.run("echo index $(branchpoint fork 2 | tail -n 1) of $(branchpoint identity)")
    assert "index 0" in cell.text
    listed = bash.run("%branches").record["branches"]
    forks = [each["name"] for each in listed if each["name"].startswith("main-")]
    assert len(forks) == 2
    bash.run(f"%drop {' '.join(forks)}")


def test_a_comparison_says_nothing_of_variables_it_cannot_see(bash: LiveKernel) -> None:
    bash.run("echo one > /root/noted")
    bash.run("%checkpoint noted")
    bash.run("echo two > /root/noted")
    assert "/root/noted" in bash.run("%diff noted").text


def test_an_interrupt_stops_what_it_runs(bash: LiveKernel) -> None:
    # Past the start of a program, of which Bash itself loses a Control-C.
    sent = bash.start("(sleep 2; echo on) & sleep 1000")
    bash.wait_for(sent, lambda cell: "on" in cell.text)
    bash.manager.interrupt_kernel()
    # What it says of itself then, no other kernel says.
    assert bash.finish(sent).status == "abort"

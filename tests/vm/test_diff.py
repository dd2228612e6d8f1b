"""What differs between two branches, asked of real machines."""

import pytest
from tests.support.live_kernel import LiveKernel

pytestmark = pytest.mark.vm

SETUP = """
import os, pathlib
pathlib.Path('/root/notes.txt').write_text('one\\ntwo\\n')
rows = list(range(10))
"""
LEFT = """
pathlib.Path('/root/only-left.bin').write_bytes(bytes(1000))
os.makedirs('/usr/local/lib/python3.11/dist-packages/left_tool-1.2.dist-info')
rows.append(10)
here = 'left'
"""
RIGHT = """
pathlib.Path('/root/notes.txt').write_text('one\\nthree\\n')
pathlib.Path('/etc/hostname').unlink()
pathlib.Path('/dev/shm/segment').write_text('x')
"""


@pytest.fixture(scope="module")
def forked(shared_kernel: LiveKernel) -> LiveKernel:
    """A kernel with two forks that went different ways."""
    shared_kernel.run(SETUP)
    shared_kernel.run("%checkpoint start")
    shared_kernel.run("%fork 2 --names left,right")
    shared_kernel.run(f"%%branch left\n{LEFT}")
    shared_kernel.run(f"%%branch right\n{RIGHT}")
    return shared_kernel


def test_two_forks_differ_in_files_variables_and_packages(forked: LiveKernel) -> None:
    cell = forked.run("%diff left right")
    record = cell.record
    assert (record["before"], record["after"]) == ("left as it is now", "right as it is now")
    assert {each["path"]: each["change"] for each in record["files"]} == {
        "/dev/shm/segment": "added",
        "/etc/hostname": "removed",
        "/root/notes.txt": "changed",
        "/root/only-left.bin": "removed",
        "/usr/local/lib/python3.11/dist-packages/left_tool-1.2.dist-info": "removed",
    }
    assert {each["name"]: each["change"] for each in record["variables"]} == {
        "here": "removed",
        "rows": "changed",
    }
    assert [(each["name"], each["before"]) for each in record["packages"]] == [("left-tool", "1.2")]
    assert "~ /root/notes.txt" in cell.text


def test_a_checkpoint_is_compared_with_the_branch_as_it_is_now(forked: LiveKernel) -> None:
    record = forked.run("%diff start").record
    assert (record["before"], record["after"]) == ("start", "main as it is now")
    assert record["files"] == record["variables"] == record["packages"] == []


def test_one_file_is_compared_line_by_line(forked: LiveKernel) -> None:
    text = forked.run("%diff start right --text notes.txt").text
    assert "-two\n+three" in text
    assert "is binary" in forked.run("%diff start left --text /root/only-left.bin").text


def test_an_unknown_name_is_refused_with_what_was_probably_meant(forked: LiveKernel) -> None:
    refused = forked.run("%diff lefft right", expect="error")
    assert "did you mean 'left'" in refused.text

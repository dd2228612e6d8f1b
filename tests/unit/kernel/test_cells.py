"""Where in a cell our magics are, and where they only seem to be."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_kernel.cells import Code, near_miss, split
from branchpoint_kernel.commands import Branches, Checkpoint, Explain, Rollback, RunIn
from branchpoint_vmruntime.errors import UsageError


@pytest.mark.parametrize(
    "code",
    [
        "",
        "x = 1",
        "fork = 3",
        "x %fork",
        'text = """\n%fork 3\n"""',
        "f(\n%fork\n)",
        "for i in range(3):\n    %checkpoint",
        "if x:\n  y = '''\n%fork 2\n'''",
        "%%time\n%fork 2",
        "%%bash\n%checkpoint a",
        "%forked 3",
        "%fork.x",
        "b = %fork 3",
        "# %fork 3",
        "!echo %fork 3",
        "x = 1 \\\n%fork",
        "?fork",
        "fork?",
    ],
)
def test_a_cell_without_a_magic_of_ours_is_the_guests_alone(code: str) -> None:
    assert split(code) is None


@pytest.mark.parametrize(
    "code", ["%checkpoint a", "\n\n%checkpoint a\n", "%checkpoint a # why", "%checkpoint \\\n a\n"]
)
def test_a_cell_of_one_magic_is_that_command(code: str) -> None:
    assert split(code) == [Checkpoint(label="a", note="")]


def test_a_mixed_cell_is_cut_at_its_magics() -> None:
    assert split("x = 1\n%checkpoint a\ny = '''\n%fork 9\n'''\n%rollback a\n!ls") == [
        Code("x = 1\n"),
        Checkpoint(label="a", note=""),
        Code("y = '''\n%fork 9\n'''\n"),
        Rollback(target="a", safety=True),
        Code("!ls"),
    ]


def test_lines_only_a_shell_can_read_do_not_hide_the_magics_after_them() -> None:
    assert split('!echo "it\'s (\n%checkpoint a\n%timeit """\n%rollback a') == [
        Code("!echo \"it's (\n"),
        Checkpoint(label="a", note=""),
        Code('%timeit """\n'),
        Rollback(target="a", safety=True),
    ]


def test_a_cell_magic_takes_the_whole_cell() -> None:
    assert split("%%branch a\n%fork 3\nx") == [RunIn(names=("a",), body="%fork 3\nx")]


@pytest.mark.parametrize("code", ["%fork?", "?%fork", "%fork ?", "%%branch?", "\n%fork??\n"])
def test_a_question_is_an_explanation_in_the_pager(code: str) -> None:
    [command] = split(code) or []
    assert isinstance(command, Explain)
    assert command.paged


def test_a_command_that_cannot_be_read_refuses_the_whole_cell() -> None:
    with pytest.raises(UsageError, match="not 0"):
        split("x = 1\n%fork 0\n")


@pytest.mark.parametrize(
    ("code", "meant"),
    [
        ("%chekpoint a", "checkpoint"),
        ("x\n%forks 3", "fork"),
        ("%rolback", "rollback"),
        ("%%branhc a\nx", "branch"),
        ("%matplotlib inline", None),
        ("%time x", None),
        ("%checkpoint a", None),
    ],
)
def test_a_slip_is_told_from_another_magic(code: str, meant: str | None) -> None:
    assert near_miss(code) == meant


def test_many_empty_lines_are_passed_over_in_no_time() -> None:
    # Were it with the square of their number, this would take hours.
    assert near_miss("\n" * 1_000_000 + "x % 2") is None


@pytest.mark.parametrize(
    "code", ["echo\n%fork 2", "%fork 2\necho", "%1", "printf '\n%fork 2\n'", "  %fork 2"]
)
def test_in_another_language_a_cell_with_anything_else_in_it_is_the_guests(code: str) -> None:
    assert split(code, "bash") is None


def test_in_another_language_a_cell_of_our_magics_alone_is_ours() -> None:
    assert split("\n%checkpoint a\n\n%branches  # all\n", "bash") == [
        Checkpoint(label="a", note=""),
        Branches(),
    ]
    assert split("%%branch a\necho $RANDOM\n", "bash") == [
        RunIn(names=("a",), body="echo $RANDOM\n")
    ]


LINES = st.sampled_from(
    [
        "x = 1\n",
        "\n",
        "# %fork\n",
        "!echo 'a\n",
        "%time x\n",
        "if x:\n",
        "    y\n",
        '"""\n',
        "f(\n",
        ")\n",
        "é = 'ü'\n",
        "\t%fork 3\n",
    ]
)


@given(st.lists(LINES, max_size=12))
def test_whatever_surrounds_it_no_line_of_the_guests_is_lost_or_changed(lines: list[str]) -> None:
    code = "".join(lines) + "%checkpoint a\n" + "".join(reversed(lines))
    segments = split(code)
    if segments is None:
        return
    kept = "".join(segment.text for segment in segments if isinstance(segment, Code))
    assert kept.split() == "".join([*lines, *reversed(lines)]).split()


@given(st.text(alphabet="%fork branch'\"(\n\\?#x ", max_size=60))
def test_any_text_is_split_or_left_or_refused(code: str) -> None:
    with suppress(UsageError):
        split(code)

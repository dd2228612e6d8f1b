"""What may be written after a magic's name, and how everything else is refused."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_kernel.commands import (
    Annotate,
    AutoCheckpoint,
    Branches,
    Checkpoint,
    Diff,
    Drop,
    Explain,
    Fork,
    Keep,
    Rollback,
    RunIn,
    Switch,
    Undo,
)
from branchpoint_kernel.grammar import parse
from branchpoint_kernel.manual import MAGICS
from branchpoint_kernel.words import without_comment
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.lineage.naming import RESERVED_BRANCH_NAMES
from branchpoint_vmruntime.session import MAX_FORKS

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True).filter(
    lambda name: name not in RESERVED_BRANCH_NAMES
)


@pytest.mark.parametrize(
    ("name", "line", "command"),
    [
        ("checkpoint", "", Checkpoint(label=None, note="")),
        ("checkpoint", "a --note 'two words'", Checkpoint(label="a", note="two words")),
        ("checkpoint", "--note=x a  # said", Checkpoint(label="a", note="x")),
        ("annotate", "a --label b", Annotate(checkpoint="a", label="b", note=None)),
        (
            "annotate",
            "a --note 'two words' --label größe",
            Annotate(checkpoint="a", label="größe", note="two words"),
        ),
        ("fork", "3", Fork(count=3, start=None, names=(), same_random=False)),
        (
            "fork",
            "2 --names a,b --from loaded --same-random",
            Fork(count=2, start="loaded", names=("a", "b"), same_random=True),
        ),
        ("rollback", "", Rollback(target=None, safety=True)),
        ("rollback", "a --no-safety", Rollback(target="a", safety=False)),
        ("rollback", "a --preview", Rollback(target="a", safety=True, preview=True)),
        ("rollback", "a --keep-queue", Rollback(target="a", safety=True, keep_queue=True)),
        ("undo", "", Undo(cells=1, preview=False)),
        ("undo", "3 --preview", Undo(cells=3, preview=True)),
        ("autocheckpoint", "", AutoCheckpoint(None)),
        ("autocheckpoint", "on", AutoCheckpoint(1)),
        ("autocheckpoint", "off", AutoCheckpoint(0)),
        ("autocheckpoint", "every 5", AutoCheckpoint(5)),
        ("diff", "a", Diff(before="a", after=None, text=None)),
        ("diff", "a b --text /root/x", Diff(before="a", after="b", text="/root/x")),
        ("branches", "", Branches()),
        ("switch", "b", Switch("b")),
        ("keep", "b", Keep("b")),
        ("drop", "a,b c", Drop(("a", "b", "c"))),
        ("fork", "0 --help", Explain(magic="fork", paged=False)),
    ],
)
def test_a_line_becomes_its_command(name: str, line: str, command: object) -> None:
    assert parse(name, line) == command


@pytest.mark.parametrize(
    ("name", "line", "says"),
    [
        ("fork", "", "needs a number of branches, 1 to 64"),
        ("undo", "0", "a number of cells, 1 or more, not 0"),
        ("undo", "loaded", "a number of cells, 1 or more, not loaded"),
        ("undo", "99999999", "a number of cells, 1 or more"),
        ("autocheckpoint", "5", "on, off, or every N cells, not '5'"),
        ("autocheckpoint", "every", "on, off, or every N cells"),
        ("autocheckpoint", "every 0", "on, off, or every N cells"),
        ("diff", "", "needs the name of a branch or checkpoint"),
        ("diff", "a b c", "does not know what to do with 'c'"),
        ("diff", "a --text", "--text needs a file after it"),
        ("annotate", "", "needs the label of a checkpoint, or the start of its id"),
        ("annotate", "a", "needs a new --label, a --note, or both"),
        ("annotate", "a b --label c", "does not know what to do with 'b'"),
        ("annotate", "a --label", "--label needs a text after it"),
        ("fork", "0", "makes 1 to 64 branches at a time, not 0"),
        ("fork", "999", "makes 1 to 64 branches at a time, not 999"),
        ("fork", "-1", "makes 1 to 64 branches at a time, not -1"),
        ("fork", "three", "not three"),
        ("fork", "2 3", "does not know what to do with '3'"),
        ("fork", "2 --names a", "needs 2 names, and 1 are given"),
        ("fork", "2 --names a,a", "not all different"),
        ("fork", "1 --names all", "'all' cannot be a branch name"),
        ("fork", "1 --names ../x", "cannot contain '/'"),
        ("fork", "2 --nmaes a,b", "has no flag --nmaes; there is: --from, --names, --same-random"),
        ("fork", "2 --from", "--from needs a checkpoint after it"),
        ("fork", "2 --from --same-random", "--from needs a checkpoint after it"),
        ("checkpoint", "it's", 'the quotes in "it\'s" do not match'),
        ("checkpoint", "a b", "does not know what to do with 'b'"),
        ("branches", "now", "does not know what to do with 'now'"),
        ("switch", "", "needs the name of a branch"),
        ("drop", "", "needs the name of at least one branch"),
        ("branch", "", "needs the names of the branches"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_what_to_type(name: str, line: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(name, line, "code")
    assert says in str(refused.value)
    assert MAGICS[name].usage in refused.value.hint


def test_a_cell_for_branches_takes_names_or_all() -> None:
    assert parse("branch", "a,b", "x\n") == RunIn(names=("a", "b"), body="x\n")
    assert parse("branch", "all", "x") == RunIn(names=None, body="x")
    with pytest.raises(UsageError, match="not both"):
        parse("branch", "a,all", "x")
    with pytest.raises(UsageError, match="no cell to run"):
        parse("branch", "a", "  \n")


@given(st.lists(NAMES, min_size=1, max_size=MAX_FORKS, unique=True))
def test_any_distinct_names_are_taken_in_their_order(names: list[str]) -> None:
    command = parse("fork", f"{len(names)} --names {','.join(names)}")
    assert isinstance(command, Fork)
    assert list(command.names) == names


@given(st.text(), st.sampled_from(sorted(MAGICS)))
def test_nothing_that_can_be_typed_is_answered_by_anything_but_a_command_or_a_refusal(
    line: str, name: str
) -> None:
    with suppress(UsageError):
        parse(name, line, "code")


@given(st.text(alphabet="ab '\"#\t"))
def test_without_comment_keeps_a_beginning_of_the_line(line: str) -> None:
    kept = without_comment(line)
    assert line.startswith(kept)
    assert without_comment(kept) == kept

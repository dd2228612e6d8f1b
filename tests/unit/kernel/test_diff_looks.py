"""How differences look and what a record of them holds."""

import json

from branchpoint_kernel.comparison import (
    Change,
    Comparison,
    FileChange,
    PackageChange,
    VariableChange,
)
from branchpoint_kernel.diff_rendering import (
    ROWS_RECORDED,
    ROWS_SHOWN,
    cells_lines,
    comparison_lines,
    comparison_record,
)
from branchpoint_kernel.insides import FileContent, Variable
from branchpoint_kernel.rendering import Verbatim, as_html, as_text
from branchpoint_kernel.text_diff import LINES_SHOWN, text_diff
from branchpoint_vmruntime.lineage import Cell


def a_variable(size: int, text: str) -> Variable:
    return Variable(name="x", type="builtins.list", size=size, repr=text, digest=text, exact=True)


def a_comparison(*files: FileChange) -> Comparison:
    return Comparison(
        files=files,
        caches=2,
        left_out=0,
        variables=(
            VariableChange(
                name="x",
                change=Change.CHANGED,
                before=a_variable(64, "[]"),
                after=a_variable(2_000_000, "[1,\n 2]"),
            ),
        ),
        same=3,
        look_same=1,
        packages=(
            PackageChange(
                kind="python", name="numpy", change=Change.CHANGED, before="1.0", after="2.0"
            ),
        ),
        notes=("something was not told",),
    )


def a_file(path: str) -> FileChange:
    return FileChange(path=path, change=Change.ADDED, before=None, after=12_000)


def test_a_comparison_reads_as_marked_rows_under_headings() -> None:
    assert as_text(comparison_lines(a_comparison(a_file("/root/out.csv")))).splitlines() == [
        "▸ files   1 added · and 2 caches",
        "+ /root/out.csv   12 kB",
        "▸ variables   1 changed · 3 the same, 1 look the same",
        "~ x               list · 2.0 MB, was 64 bytes · [1, 2]",
        "▸ packages   1 changed",
        "~ numpy           2.0, was 1.0 · python",
        "⚠ something was not told",
    ]


def test_many_rows_are_cut_off_and_counted() -> None:
    files = [a_file(f"/root/{number}") for number in range(ROWS_SHOWN + 5)]
    text = as_text(comparison_lines(a_comparison(*files)))
    assert "… and 5 more" in text
    assert text.count("/root/") == ROWS_SHOWN


def test_a_record_says_how_many_there_are_beyond_what_it_holds() -> None:
    files = [a_file(f"/root/{number}") for number in range(ROWS_RECORDED + 5)]
    record = comparison_record(a_comparison(*files))
    assert len(record["files"]) == ROWS_RECORDED
    assert record["files_total"] == ROWS_RECORDED + 5


def test_a_name_that_is_no_text_can_be_stored_anywhere() -> None:
    found = a_comparison(a_file("/root/bad\udcff\x1b[31m"))
    assert "/root/bad\\udcff\\x1b[31m" in as_text(comparison_lines(found))
    json.dumps(comparison_record(found), ensure_ascii=False).encode()


def test_cells_are_named_by_their_first_lines() -> None:
    cells = [Cell(id="", count=4, source="\n# load\ndf = load()"), Cell(id="", count=5, source="x")]
    assert as_text(cells_lines(cells)).splitlines() == [
        "▸ cells   2 undone",
        "↩ In[4]   # load …",
        "↩ In[5]   x",
    ]


def content(text: bytes | None, *, size: int | None = None, kind: str = "file") -> FileContent:
    if text is None:
        return FileContent(kind="", size=0, content=b"")
    return FileContent(kind=kind, size=len(text) if size is None else size, content=text)


def test_a_text_diff_is_unified() -> None:
    assert text_diff("/root/a", content(b"x\ny\n"), content(b"x\nz\n")) == [
        "--- /root/a",
        "+++ /root/a",
        "@@ -1,3 +1,3 @@",
        " x",
        "-y",
        "+z",
        " ",
    ]


def test_a_file_that_one_does_not_have_is_compared_with_nothing() -> None:
    lines = text_diff("/root/a", content(None), content(b"x"))
    assert lines[:2] == ["--- /dev/null", "+++ /root/a"]
    assert lines[-1] == "+x"


def test_there_is_no_text_diff_of_what_is_no_text() -> None:
    assert text_diff("a", content(b"\0"), content(b"x")) == ["a is binary: 1 bytes, then 1"]
    assert text_diff("a", content(b"\0"), content(b"\0")) == ["a is binary: the same in both"]
    assert text_diff("a", content(b"", kind="dir"), content(b"x")) == ["a is no file but a dir"]
    assert text_diff("a", content(None), content(None)) == ["a is in neither"]


def test_equal_beginnings_do_not_make_a_file_the_same() -> None:
    lines = text_diff("a", content(b"x", size=10), content(b"x", size=20))
    assert lines == ["… only the first 1 bytes were compared"]
    assert text_diff("a", content(b"x"), content(b"x")) == ["a is the same in both"]


def test_a_long_text_diff_is_cut_off_and_says_so() -> None:
    many = b"".join(b"%d\n" % number for number in range(1000))
    lines = text_diff("a", content(b""), content(many))
    assert len(lines) == LINES_SHOWN + 1
    assert lines[-1].startswith("… and ")


def test_verbatim_lines_keep_every_blank_and_become_no_html() -> None:
    lines = [Verbatim("", "-  <b>  x ", in_columns=False)]
    assert as_text(lines) == "-  <b>  x "
    assert "<b>" not in as_html(lines)

"""How outcomes look: lines, columns, errors."""

from branchpoint_kernel import columns
from branchpoint_kernel.columns import Column
from branchpoint_kernel.publisher import error_content
from branchpoint_kernel.rendering import (
    Line,
    Verbatim,
    as_html,
    as_text,
    duration,
    note,
    size,
)
from branchpoint_vmruntime.errors import MissingToolError, UnknownNameError


def test_facts_stand_in_one_column_and_notes_do_not_widen_it() -> None:
    lines = [
        Line("├─", "a", ("x", "", "y")),
        Line("└─", "long", ("z",)),
        note("⚠", "a note that is very long indeed", "w"),
    ]
    assert as_text(lines) == "├─ a      x · y\n└─ long   z\n⚠ a note that is very long indeed   w"


def test_nothing_from_outside_becomes_html() -> None:
    html = as_html([Line("●", "<script>", ("a & b",))])
    assert "<script>" not in html
    assert "a &amp; b" in html


def test_a_line_that_is_longer_than_the_page_is_wide_goes_on_below() -> None:
    assert "white-space:pre-wrap" in as_html([note("↩", "a notebook", "with much to say")])


def test_a_table_keeps_its_columns_and_its_empty_lines() -> None:
    html = as_html([Verbatim("", text, in_columns=False) for text in ("a  b", "")])
    assert "pre-wrap" not in html
    assert '<div style="white-space:pre">a  b</div><div style="white-space:pre"><br></div>' in html


def test_figures_are_rounded_as_people_say_them() -> None:
    assert [size(n) for n in (0, 4_300, 64_000, 9_400_000, 412_000_000, 1_100_000_000)] == [
        "0 kB",
        "4.3 kB",
        "64 kB",
        "9.4 MB",
        "412 MB",
        "1.1 GB",
    ]
    assert [duration(ms) for ms in (0.4, 46, 999, 1234)] == ["0 ms", "46 ms", "999 ms", "1.23 s"]


def a_column() -> Column:
    column = Column("ridge", status="ok", elapsed_ms=420.0)
    column.add("stream", {"name": "stdout", "text": "10%\r"})
    column.add("stream", {"name": "stdout", "text": "99% <b>\n"})
    column.add("execute_result", {"data": {"text/plain": "42"}, "metadata": {}})
    column.add("display_data", {"data": {"image/png": "AA\nBB", "text/plain": "<Figure>"}})
    column.add("display_data", {"data": {"text/html": "<i>own</i>", "text/plain": "own"}})
    return column


def test_a_column_reads_well_as_plain_text() -> None:
    assert columns.as_text([a_column()]) == ("── ridge · 420 ms ──\n99% <b>\n42\n<Figure>\nown")


def test_a_column_as_html_escapes_text_and_shows_images_and_html() -> None:
    html = columns.as_html([a_column()])
    assert "99% &lt;b&gt;" in html
    assert 'src="data:image/png;base64,AABB"' in html
    assert "<div><i>own</i></div>" in html


def test_an_update_changes_the_display_it_names() -> None:
    column = Column("a")
    shown = {"data": {"text/plain": "1"}, "transient": {"display_id": "x"}}
    column.add("display_data", shown)
    column.add("update_display_data", {**shown, "data": {"text/plain": "2"}})
    assert columns.as_text([column]).endswith("\n2")
    column.add("clear_output", {"wait": False})
    assert column.outputs == []


def test_a_traceback_loses_its_colours() -> None:
    column = Column("a", status="error", failure="ZeroDivisionError: x")
    column.add("error", {"ename": "", "evalue": "", "traceback": ["\x1b[31mZero\x1b[39m"]})
    assert columns.as_text([column]) == "── a · ZeroDivisionError: x ──\nZero"


def test_an_error_is_told_in_words_with_its_hint() -> None:
    content = error_content(MissingToolError("no QEMU", hint="run setup"))
    assert content["ename"] == "MissingTool"
    assert content["traceback"] == ["MissingTool: no QEMU", "Hint: run setup"]
    assert error_content(UnknownNameError("branch", "x", ("a",)))["traceback"] == [
        "UnknownName: there is no branch 'x'; there is: a"
    ]

"""What a column keeps of a branch that gives much: within bounds, and it says what is missing."""

import pytest

from branchpoint_kernel.columns import Column, as_html, as_text, printed_text
from branchpoint_kernel.output_bounds import Gap
from branchpoint_kernel.redrawing import LEAST_REST_S, RESTS_PER_DRAWING, Redrawing


def put(column: Column, text: str, name: str = "stdout") -> None:
    column.add("stream", {"name": name, "text": text})


def left_out(column: Column) -> list[str]:
    return [it.words for it in column.outputs if isinstance(it, Gap)]


def test_of_much_text_the_beginning_and_the_end_are_kept() -> None:
    column = Column("a")
    put(column, "the first line\n")
    for number in range(100):
        put(column, f"{number}" + "." * 1_000_000 + "\n")
    put(column, "the last line\n")
    text = printed_text(column)
    assert len(text) < 1_100_000
    assert text.startswith("the first line\n0....")
    assert text.endswith("...\nthe last line")
    (words,) = left_out(column)
    assert words in text
    missing = int(words.split()[1].replace(",", ""))
    assert missing + len(text) == pytest.approx(100 * 1_000_002 + 29, abs=200)


def test_much_text_in_small_pieces_of_two_streams_is_bounded_too() -> None:
    column = Column("a")
    for number in range(40_000):
        put(column, f"{number}\n", ("stdout", "stderr")[number % 2])
    assert len(column.outputs) < 20_000
    assert printed_text(column).startswith("0\n1\n2\n")
    assert printed_text(column).endswith("39998\n39999")
    assert len(left_out(column)) == 1


def test_displays_stay_where_text_beside_them_is_left_out() -> None:
    column = Column("a")
    for number in range(30):
        put(column, f"{number}" * 100_000)
        column.add("display_data", {"data": {"text/plain": f"<figure {number}>"}})
    text = as_text([column])
    assert [f"<figure {number}>" in text for number in range(30)] == [True] * 30


def test_of_many_large_displays_the_newest_are_kept() -> None:
    column = Column("a")
    for number in range(100):
        data = {"text/plain": f"<figure {number}>", "image/png": "A" * 1_000_000}
        column.add("display_data", {"data": data})
    assert len(as_html([column])) < 17_000_000
    text = as_text([column])
    assert "<figure 99>" in text
    assert "<figure 0>" not in text
    (words,) = left_out(column)
    assert words in text


def test_a_display_that_grows_as_it_is_updated_is_bounded_with_the_rest() -> None:
    column = Column("a")
    transient = {"display_id": "x"}
    column.add("display_data", {"data": {"text/plain": "1"}, "transient": transient})
    column.add("display_data", {"data": {"text/plain": "kept"}})
    column.add(
        "update_display_data", {"data": {"text/plain": "2" * 17_000_000}, "transient": transient}
    )
    assert as_text([column]) == "── a · running ──\n… 1 output left out …\nkept"


def test_one_display_is_kept_however_large() -> None:
    column = Column("a")
    column.add("display_data", {"data": {"text/plain": "x" * 20_000_000}})
    assert "x" * 20_000_000 in as_text([column])


def test_what_is_cleared_makes_room() -> None:
    column = Column("a")
    for number in range(100):
        put(column, f"{number}" * 50_000)
        column.add("clear_output", {"wait": False})
    assert column.outputs == []
    put(column, "end")
    assert printed_text(column) == "end"


def test_little_is_drawn_often_and_much_seldom() -> None:
    redrawing, column = Redrawing(), Column("a")
    redrawing.draw([column])
    put(column, "x" * 900_000)
    redrawing.draw([column] * 10)
    assert redrawing.rest_s > LEAST_REST_S


def test_what_takes_long_to_draw_is_drawn_seldom() -> None:
    times = iter([10.0, 12.0])
    redrawing = Redrawing(lambda: next(times))
    redrawing.draw([Column("a")])
    assert redrawing.rest_s == 2.0 * RESTS_PER_DRAWING

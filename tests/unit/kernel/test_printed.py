"""Text of branches as it is shown beside others': without colours, returns carried out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_kernel.printed import Printed, as_on_a_terminal

LINK = "\x1b]8;;https://example.org\x1b\\here\x1b]8;;\x1b\\ "


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x" * 2_000_000, "x" * 2_000_000),
        ("10%\r" * 500_000 + "done\n", "done\n"),
        (LINK * 50_000, "here " * 50_000),
        ("\x1b]0;no end " * 200_000, "\x1b]0;no end " * 200_000),
        ("\x1b[1;" * 500_000, "\x1b[1;" * 500_000),
    ],
    ids=["one line", "a bar", "links", "titles without an end", "colours without an end"],
)
def test_long_texts_are_read_in_a_time_that_grows_with_their_length(text: str, wanted: str) -> None:
    # Were it with the square of it, this would take hours.
    assert as_on_a_terminal(text) == wanted


@given(st.text("ab\r\n\x0b\u2028", max_size=30))
def test_of_each_line_what_follows_its_last_return_is_left(text: str) -> None:
    *whole, last = text.split("\n")
    lines = [_left_of(line.removesuffix("\r")) + _end(line) for line in whole]
    assert as_on_a_terminal(text) == "\n".join([*lines, _left_of(last)])


def _left_of(line: str) -> str:
    return line.rpartition("\r")[2]


def _end(line: str) -> str:
    return "\r" if line.endswith("\r") else ""


@pytest.mark.parametrize("end", ["\x07", "\x1b\\"])
def test_what_stands_between_two_links_stays(end: str) -> None:
    link = f"\x1b]8;;https://example.org{end}one\x1b]8;;{end}"
    assert as_on_a_terminal(f"{link} and {link}") == "one and one"


@given(
    st.lists(st.sampled_from(["a", "b", "\r", "\n", "\x1b[31m", "\x1b]8;;x\x1b\\", "\x1b", "["]))
)
def test_text_that_comes_in_pieces_reads_as_if_it_had_come_at_once(pieces: list[str]) -> None:
    printed = Printed("stdout")
    for piece in [*pieces, "\n"]:
        printed.add(piece)
    assert printed.text == as_on_a_terminal("".join([*pieces, "\n"]))


def test_a_sequence_may_be_cut_anywhere() -> None:
    text = "\x1b[1;31mred\x1b[0m \x1b]8;;https://example.org\x1b\\link\x1b]8;;\x07 end\r\n"
    printed = Printed("stdout")
    for character in text:
        printed.add(character)
    assert printed.text == "red link end\r\n"


def test_of_a_bar_one_frame_is_kept() -> None:
    printed = Printed("stderr")
    for frame in range(100_000):
        printed.add(f"\r{frame}")
    assert printed.text == "99999"


def test_a_frame_that_ends_with_its_return_stays_until_the_next() -> None:
    printed = Printed("stderr")
    printed.add("before\n10%\r")
    assert printed.text == "before\n10%"
    printed.add("20%\r")
    assert printed.text == "before\n20%"


def test_what_looks_like_a_sequence_without_an_end_is_text() -> None:
    printed = Printed("stdout")
    printed.add("\x1b]" + "x" * 10_000)
    assert printed.text.endswith("x" * 10_000)

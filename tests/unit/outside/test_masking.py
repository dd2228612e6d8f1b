"""What must not come back is blanked, however the stream is cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_vmruntime.outside.masking import Mask

TEXTS = st.binary(max_size=60).map(lambda raw: bytes(b"abc*"[byte % 4] for byte in raw))
MASKS = st.lists(TEXTS.filter(bool).map(lambda text: text[:5]), max_size=4)


def masked(masks: list[bytes], pieces: list[bytes]) -> bytes:
    """All that comes out of a stream in those pieces."""
    mask = Mask(masks)
    return b"".join([mask.feed(piece) for piece in pieces]) + mask.flush()


def in_pieces(text: bytes, cuts: list[int]) -> list[bytes]:
    """The text cut at those places."""
    at = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(at)]


@given(st.binary(), st.binary(min_size=1, max_size=8), st.lists(st.integers(0, 999)))
def test_one_mask_does_what_replace_does(around: bytes, letters: bytes, cuts: list[int]) -> None:
    # The first sign occurs once in it, so that it does not overlap with itself.
    secret = b"\x00" + letters.replace(b"\x00", b"\x01")
    text = around + secret + around[::-1] + secret + around
    expected = text.replace(secret, b"*" * len(secret))
    assert masked([secret], in_pieces(text, cuts)) == expected


@given(TEXTS, MASKS, st.lists(st.integers(0, 99)))
def test_every_byte_of_every_occurrence_is_blanked_and_no_other(
    text: bytes, masks: list[bytes], cuts: list[int]
) -> None:
    expected = bytearray(text)
    for mask in masks:
        for at in range(len(text)):
            if text[at : at + len(mask)] == mask:
                expected[at : at + len(mask)] = b"*" * len(mask)
    assert masked(masks, in_pieces(text, cuts)) == bytes(expected)


def test_only_what_could_be_a_beginning_is_held_back() -> None:
    mask = Mask([b"secret"])
    assert mask.feed(b"data: the sec") == b"data: the "
    assert mask.feed(b"ond\n\n") == b"second\n\n"


def test_what_was_begun_and_not_ended_comes_out_at_the_end() -> None:
    mask = Mask([b"secret"])
    assert mask.feed(b"a secre") == b"a "
    assert mask.flush() == b"secre"
    assert mask.flush() == b""


@pytest.mark.parametrize("masks", [[], [b""]])
def test_without_masks_everything_passes_at_once(masks: list[bytes]) -> None:
    assert Mask(masks).feed(b"secret") == b"secret"

"""The laws of the wire format: however the stream is cut, the same frames; garbage is refused."""

import json
import struct
import zlib
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from branchpoint_guest.wire import (
    HEADER_SIZE,
    LANES,
    MAX_BODY,
    Frame,
    FrameReader,
    Incoming,
    Kind,
    Outgoing,
    WireError,
    decode_control,
    encode,
    encode_control,
    header,
    lane_of,
    pack_parts,
    unpack_parts,
)

GENERATIONS = st.integers(0, 2**32 - 1)
FRAMES = st.builds(
    Frame, st.sampled_from(Kind), GENERATIONS, st.binary(max_size=300), st.integers(0, 255)
)
JSON_OBJECTS = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


def stream_of(frames: list[Frame]) -> bytes:
    return b"".join(encode(*frame) for frame in frames)


def chopped(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


@given(st.lists(FRAMES, max_size=6), st.lists(st.integers(0, 4000), max_size=12))
def test_any_cut_of_a_stream_yields_the_same_frames(frames: list[Frame], cuts: list[int]) -> None:
    reader = FrameReader()
    pieces = chopped(stream_of(frames), cuts)
    assert [frame for piece in pieces for frame in reader.feed(piece)] == frames
    assert reader.pending == 0


@given(st.lists(FRAMES, min_size=1, max_size=3))
def test_byte_by_byte_each_frame_comes_with_its_last_byte(frames: list[Frame]) -> None:
    reader = FrameReader()
    for frame in frames:
        *most, last = encode(*frame)
        assert all(reader.feed(bytes([byte])) == [] for byte in most)
        assert reader.feed(bytes([last])) == [frame]


@given(st.lists(FRAMES, max_size=3), FRAMES, st.integers(1, 400))
def test_an_unfinished_frame_is_kept_and_not_handed_out(
    frames: list[Frame], last: Frame, missing: int
) -> None:
    whole = stream_of([last])
    start = whole[: max(0, len(whole) - missing)]
    reader = FrameReader()
    assert reader.feed(stream_of(frames) + start) == frames
    assert reader.pending == len(start)


@given(st.binary(min_size=HEADER_SIZE, max_size=200))
def test_garbage_is_an_error_as_soon_as_a_header_is_there(garbage: bytes) -> None:
    check = zlib.crc32(garbage[: HEADER_SIZE - 4])
    assume(struct.unpack_from("<I", garbage, HEADER_SIZE - 4) != (check,))
    with pytest.raises(WireError):
        FrameReader().feed(garbage)


@given(FRAMES, st.integers(0, HEADER_SIZE * 8 - 1))
def test_a_single_wrong_bit_in_a_header_is_found(frame: Frame, bit: int) -> None:
    damaged = bytearray(stream_of([frame]))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(WireError):
        FrameReader().feed(bytes(damaged))


@given(FRAMES, st.integers(1, HEADER_SIZE - 1))
def test_a_reader_that_is_out_of_step_finds_out(frame: Frame, lost: int) -> None:
    stream = stream_of([frame, frame])[lost:]
    with pytest.raises(WireError):
        FrameReader().feed(stream)


def with_valid_check(facts: bytes) -> bytes:
    return facts + struct.pack("<I", zlib.crc32(facts))


def test_an_unknown_kind_is_a_wire_error() -> None:
    with pytest.raises(WireError, match="kind 77"):
        FrameReader().feed(with_valid_check(struct.pack("<2sBxII", b"BP", 77, 1, 0)))


def test_a_body_over_the_limit_is_refused_by_both_ends() -> None:
    with pytest.raises(WireError, match="limit"):
        header(Kind.MESSAGE, 1, MAX_BODY + 1)
    with pytest.raises(WireError, match="limit"):
        FrameReader().feed(with_valid_check(struct.pack("<2sBxII", b"BP", 2, 1, MAX_BODY + 1)))


@given(st.lists(st.binary(max_size=100), max_size=10))
def test_parts_come_out_as_they_went_in(parts: list[bytes]) -> None:
    assert unpack_parts(pack_parts(parts)) == parts


@given(st.binary(max_size=200))
def test_any_body_unpacks_to_what_packs_to_it_or_is_refused(body: bytes) -> None:
    try:
        parts = unpack_parts(body)
    except WireError:
        return
    assert pack_parts(parts) == body


@given(st.lists(st.binary(max_size=50), max_size=6), st.data())
def test_a_multipart_body_cut_short_is_refused(parts: list[bytes], data: st.DataObject) -> None:
    body = pack_parts(parts)
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(WireError):
        unpack_parts(body[:cut])


def test_a_count_of_four_billion_parts_is_refused_at_once() -> None:
    with pytest.raises(WireError):
        unpack_parts(b"\xff" * 64)


@given(GENERATIONS, JSON_OBJECTS)
def test_a_control_message_comes_out_as_it_went_in(
    generation: int, message: dict[str, object]
) -> None:
    (frame,) = FrameReader().feed(encode_control(generation, message))
    assert frame.kind == Kind.CONTROL
    assert frame.generation == generation
    assert decode_control(frame) == message


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", json.dumps([1]).encode(), b"null"])
def test_a_control_body_that_is_no_object_is_a_wire_error(body: bytes) -> None:
    with pytest.raises(WireError):
        decode_control(Frame(Kind.CONTROL, 1, body))


CHANNELS = st.sampled_from([b"control", b"stdin", b"shell", b"iopub"])
MESSAGES = st.lists(
    st.tuples(CHANNELS, st.lists(st.binary(max_size=200), max_size=4)).map(
        lambda message: [message[0], *message[1]]
    ),
    max_size=8,
)


@given(MESSAGES, st.integers(HEADER_SIZE + 1, 300), st.data())
def test_chunks_come_out_as_the_messages_that_went_in_whatever_went_between(
    messages: list[list[bytes]], chunk_bytes: int, data: st.DataObject
) -> None:
    outgoing, incoming, reader = Outgoing(chunk_bytes), Incoming(), FrameReader()
    arrived: list[list[bytes]] = []
    ends = 0
    waiting = list(messages)
    while waiting or any(outgoing.waiting_bytes):
        for _ in range(data.draw(st.integers(0, len(waiting)))):
            outgoing.put(waiting.pop(0))
        if (following := outgoing.next_frame(3)) is None:
            continue
        sent, _, is_last = following
        assert len(sent) <= chunk_bytes
        ends += is_last
        taken = [incoming.take(frame) for frame in reader.feed(sent)]
        arrived += [parts for parts in taken if parts is not None]
    assert ends == len(arrived) == len(messages)
    for lane in LANES:
        assert of_lane(arrived, lane) == of_lane(messages, lane)


def of_lane(messages: list[list[bytes]], lane: int) -> list[list[bytes]]:
    return [message for message in messages if lane_of(message[0]) == lane]


def test_what_is_urgent_goes_before_the_rest_of_what_is_under_way() -> None:
    outgoing, incoming, reader = Outgoing(100), Incoming(), FrameReader()
    outgoing.put([b"iopub", bytes(1000)])
    stream = (outgoing.next_frame(1) or (b"",))[0]
    outgoing.put([b"shell", b"reply"])
    outgoing.put([b"stdin", b"question"])
    outgoing.put([b"control", b"answer"])
    while (following := outgoing.next_frame(1)) is not None:
        stream += following[0]
    taken = [incoming.take(frame) for frame in reader.feed(stream)]
    order = [parts[0] for parts in taken if parts]
    assert order == [b"control", b"stdin", b"iopub", b"shell"]


def test_what_was_waiting_and_is_cleared_is_not_sent() -> None:
    outgoing = Outgoing(100)
    outgoing.put([b"iopub", bytes(1000)])
    outgoing.next_frame(1)
    outgoing.clear()
    assert outgoing.next_frame(1) is None
    assert not any(outgoing.waiting_bytes)


def test_a_chunk_on_a_lane_there_is_not_is_a_wire_error() -> None:
    with pytest.raises(WireError, match="lane"):
        Incoming().take(Frame(Kind.MESSAGE, 1, pack_parts([b"shell"]), lane=9))

"""The laws of streams over one port: exact bytes, kept windows, and nothing breaks but streams."""

from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchpoint_guest import mux
from branchpoint_guest.mux import Event, Mux
from branchpoint_guest.wire import FrameReader, WireError

WINDOW = 1000


@dataclass
class End:
    """One end, with what its user has heard and said."""

    mux: Mux
    reader: FrameReader = field(default_factory=lambda: FrameReader(mux.MOST_BODY_BYTES))
    events: list[Event] = field(default_factory=list[Event])
    heard: dict[int, bytes] = field(default_factory=lambda: defaultdict[int, bytes](bytes))
    said: dict[int, bytes] = field(default_factory=lambda: defaultdict[int, bytes](bytes))
    untaken: dict[int, int] = field(default_factory=lambda: defaultdict[int, int](int))

    def write(self, number: int, data: bytes) -> None:
        self.mux.write(number, data)
        self.said[number] += data

    def take_all(self) -> None:
        for number, count in self.untaken.items():
            self.mux.taken(number, count)
        self.untaken.clear()

    def of(self, verb: int) -> list[Event]:
        return [event for event in self.events if event.verb == verb]


@dataclass
class Pair:
    """Both ends, and frames passed between them."""

    guest: End = field(default_factory=lambda: End(Mux(1, window=WINDOW, credit=WINDOW)))
    host: End = field(default_factory=lambda: End(Mux(2, window=WINDOW, credit=WINDOW)))

    def step(self, sender: End) -> bool:
        """Pass one frame on; whether there was one."""
        receiver = self.host if sender is self.guest else self.guest
        frame = sender.mux.next_frame(7)
        for cut in receiver.reader.feed(frame or b""):
            event = receiver.mux.take(cut.body)
            if event is None:
                continue
            receiver.events.append(event)
            if event.verb == mux.DATA:
                receiver.heard[event.stream] += event.data
                receiver.untaken[event.stream] += len(event.data)
        return frame is not None

    def settle(self) -> None:
        """Pass all frames on, taking nothing."""
        while self.step(self.guest) or self.step(self.host):
            pass

    def run(self) -> None:
        """Pass all frames on, and take all that they bring."""
        for _ in range(10_000):
            self.settle()
            if not self.guest.untaken and not self.host.untaken:
                return
            self.guest.take_all()
            self.host.take_all()
        pytest.fail("there is no end to it")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "pass", "pass", "pass", "take", "finish"]),
        st.booleans(),
        st.integers(0, 3),
        st.integers(1, 2 * WINDOW),
    ),
    max_size=120,
)


@given(STEPS)
def test_whatever_comes_in_between_every_byte_arrives_in_order_and_no_window_is_exceeded(
    steps: list[tuple[str, bool, int, int]],
) -> None:
    pair = Pair()
    numbers = [pair.guest.mux.open(("a",)), pair.guest.mux.open(("b",))]
    numbers += [pair.host.mux.open(("c",)), pair.host.mux.open(("d",))]
    finished: set[tuple[bool, int]] = set()
    pair.settle()
    for action, by_guest, place, count in steps:
        end, number = pair.guest if by_guest else pair.host, numbers[place]
        if action == "pass":
            pair.step(end)
        elif action == "take":
            end.take_all()
        elif (by_guest, number) not in finished and action == "write":
            end.write(number, bytes([count % 251]) * count)
        elif action == "finish":
            end.mux.finish(number)
            finished.add((by_guest, number))
        assert all(held <= WINDOW for held in end.untaken.values())
    pair.run()
    assert dict(pair.host.heard) == {n: data for n, data in pair.guest.said.items() if data}
    assert dict(pair.guest.heard) == {n: data for n, data in pair.host.said.items() if data}
    assert {(True, event.stream) for event in pair.host.of(mux.END)} | {
        (False, event.stream) for event in pair.guest.of(mux.END)
    } == finished


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_garbage_is_a_wire_error_and_nothing_else(bodies: list[bytes]) -> None:
    host = Mux.of_host()
    opened = host.open(("connect", "80"))
    host.write(opened, b"x")
    try:
        for body in bodies:
            host.take(body)
    except WireError:
        pass
    while host.next_frame(1):
        pass


def body_of(number: int, verb: int, payload: bytes = b"") -> bytes:
    return number.to_bytes(4, "little") + bytes([verb]) + payload


FRAMES = st.builds(
    body_of,
    st.integers(0, 6),
    st.integers(0, 8),
    st.binary(max_size=8) | st.integers(0, 2 * WINDOW).map(lambda n: n.to_bytes(4, "little")),
)


@given(st.lists(FRAMES, max_size=40))
def test_frames_that_make_no_sense_are_a_wire_error_and_nothing_else(bodies: list[bytes]) -> None:
    host = Mux(2, window=WINDOW, credit=WINDOW, limit=2)
    opened = host.open(("connect", "80"))
    host.write(opened, bytes(3 * WINDOW))
    try:
        for body in bodies:
            event = host.take(body)
            host.next_frame(1)
            if event is not None and event.verb == mux.OPEN:
                host.accept(event.stream)
    except WireError:
        pass
    assert host.streams <= 3


def test_a_stream_nobody_takes_from_holds_up_no_other() -> None:
    pair = Pair()
    stalled, lively = pair.guest.mux.open(("a",)), pair.guest.mux.open(("b",))
    pair.guest.write(stalled, bytes(5 * WINDOW))
    pair.guest.write(lively, bytes(5 * WINDOW))
    pair.settle()
    for _ in range(20):
        pair.host.mux.taken(lively, pair.host.untaken.pop(lively, 0))
        pair.settle()
    assert len(pair.host.heard[lively]) == 5 * WINDOW
    assert len(pair.host.heard[stalled]) == WINDOW


def test_streams_take_turns() -> None:
    pair = Pair(guest=End(Mux.of_guest()), host=End(Mux.of_host()))
    first, second = pair.guest.mux.open(("a",)), pair.guest.mux.open(("b",))
    pair.settle()
    for number in (first, second):
        pair.guest.write(number, bytes(3 * mux.DATA_BYTES))
    pair.settle()
    assert [event.stream for event in pair.host.of(mux.DATA)] == [first, second] * 3


def test_answers_and_resets_go_before_data() -> None:
    pair = Pair()
    asked, busy = pair.host.mux.open(("connect", "80")), pair.guest.mux.open(("a",))
    pair.settle()
    pair.guest.write(busy, bytes(WINDOW))
    pair.guest.mux.refuse(asked, "nothing listens there")
    pair.step(pair.guest)
    (refused,) = pair.host.events[1:]
    assert (refused.verb, refused.texts) == (mux.REFUSED, ("nothing listens there",))


def test_what_is_opened_bears_its_purpose() -> None:
    pair = Pair()
    pair.host.mux.open(("put", "/root/two\nlines \udcff", "17"))
    pair.settle()
    assert pair.guest.events[0].texts == ("put", "/root/two\nlines \udcff", "17")


def test_what_the_guest_says_is_text_whatever_it_is() -> None:
    host = Mux.of_host()
    event = host.take(b"\1\0\0\0\1\xff\xfe")
    assert event is not None
    event.texts[0].encode()


def test_what_is_under_way_for_a_stream_that_was_cut_off_is_passed_over() -> None:
    pair = Pair()
    number = pair.guest.mux.open(("a",))
    pair.guest.write(number, b"late")
    pair.step(pair.guest)
    pair.host.mux.reset(number, "no")
    pair.settle()
    assert pair.host.of(mux.DATA) == []
    assert [event.texts for event in pair.guest.of(mux.RESET)] == [("no",)]
    assert (pair.host.mux.streams, pair.guest.mux.streams) == (0, 0)


def test_a_stream_that_both_ends_have_finished_is_forgotten_once_all_was_sent() -> None:
    pair = Pair()
    number = pair.guest.mux.open(("a",))
    pair.settle()
    pair.host.mux.finish(number)
    pair.settle()
    pair.guest.write(number, b"all of it")
    pair.guest.mux.finish(number)
    pair.guest.mux.close(number, "closed")
    pair.settle()
    assert pair.host.heard[number] == b"all of it"
    assert (pair.host.mux.streams, pair.guest.mux.streams) == (0, 0)


def test_closing_one_that_the_other_end_has_not_finished_cuts_it_off() -> None:
    pair = Pair()
    number = pair.guest.mux.open(("a",))
    pair.guest.mux.finish(number)
    pair.settle()
    pair.guest.mux.close(number, "closed")
    pair.settle()
    assert [event.texts for event in pair.host.of(mux.RESET)] == [("closed",)]


def test_more_streams_than_there_may_be_are_refused_in_words() -> None:
    pair = Pair(host=End(Mux(2, window=WINDOW, credit=WINDOW, limit=2)))
    for _ in range(3):
        pair.guest.mux.open(("a",))
    pair.settle()
    assert len(pair.host.of(mux.OPEN)) == 2
    (refused,) = pair.guest.of(mux.REFUSED)
    assert refused.texts == ("2 streams are open already",)
    pair.guest.mux.reset(1, "over")
    pair.settle()
    pair.guest.mux.open(("a",))
    pair.settle()
    assert len(pair.host.of(mux.OPEN)) == 3


def test_an_end_may_open_no_more_than_the_limit() -> None:
    end = Mux(1, window=WINDOW, credit=WINDOW, limit=1)
    number = end.open(("a",))
    assert not end.may_open
    end.reset(number, "over")
    assert end.may_open


def test_one_that_opens_without_end_and_takes_no_answers_is_found_out() -> None:
    host = Mux.of_host()

    def open_without_end() -> None:
        for number in range(1, 100_000, 2):
            host.take(body_of(number, mux.OPEN, b"egress"))

    with pytest.raises(WireError, match="takes no answers"):
        open_without_end()


NONSENSE: dict[str, bytes] = {
    "a frame cut short": b"\1\0",
    "a stream of the host's own numbers": b"\4\0\0\0\1",
    "data for what there never was": b"\7\0\0\0\4x",
    "an unknown verb": b"\2\0\0\0\x63",
    "no data": b"\2\0\0\0\4",
    "credit for nothing sent": b"\2\0\0\0\5\1\0\0\0",
    "credit that is no number": b"\2\0\0\0\5\1",
    "data beyond the window": b"\2\0\0\0\4" + bytes(mux.HOST_WINDOW + 1),
}


@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE.keys())
def test_what_breaks_the_rules_is_a_wire_error(body: bytes) -> None:
    host = Mux.of_host()
    host.open(("connect", "80"))
    with pytest.raises(WireError):
        host.take(body)


def test_a_stream_is_answered_once_and_ends_once() -> None:
    for twice in (mux.OPENED, mux.END):
        host = Mux.of_host()
        host.open(("connect", "80"))
        host.take(body_of(2, twice))
        with pytest.raises(WireError):
            host.take(body_of(2, twice))

"""Requests with a key: sent once, answered again, and refused where nobody knows."""
# pyright: reportPrivateUsage=false

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.unit.ledger.callers import in_a_loop, now_waiting
from tests.unit.ledger.facts import NOON, a_draft

from branchpoint_vmruntime.ledger import Decision, Draft, EntryKind, Outcome, OutcomeState
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.ledger.once import OnceDesk
from branchpoint_vmruntime.ledger.replay import (
    REPLAYED_HEADER,
    Go,
    RecordedReply,
    Refuse,
    Replay,
    ReplayDesk,
    _from_bytes,
    _to_bytes,
)

CREATED = RecordedReply(
    status=201, reason=b"Created", headers=((b"X-Id", b"7\xff"),), body=b"line\n\x00"
)


@pytest.fixture
def desk(ledger: Ledger) -> ReplayDesk:
    return ReplayDesk(ledger)


def a_request(
    url: str = "https://api.example.org/orders",
    *,
    method: str = "POST",
    body: str = "f-1",
    incarnation: str = "inc-1",
) -> Draft:
    draft = a_draft("k", kind=EntryKind.REQUEST, fingerprint=body, incarnation=incarnation)
    return replace(draft, url=url, method=method)


def outcome(status: int | None, state: OutcomeState = OutcomeState.DONE) -> Outcome:
    return Outcome(at=NOON, state=state, status=status)


async def sent(
    desk: ReplayDesk,
    status: int | None = 201,
    state: OutcomeState = OutcomeState.DONE,
    reply: RecordedReply | None = CREATED,
) -> int:
    """A request that has been sent, and how it ended."""
    admission = await desk.begin(a_request(), retry=False)
    assert isinstance(admission, Go)
    desk.finish(admission.number, outcome(status, state), reply)
    return admission.number


@in_a_loop
async def test_the_intent_is_written_before_it_is_sent(desk: ReplayDesk, ledger: Ledger) -> None:
    admission = await desk.begin(a_request(), retry=False)
    [entry] = ledger.entries("s-1")
    assert admission == Go(entry.number)
    assert (entry.draft, entry.outcome) == (a_request(), None)


@in_a_loop
async def test_its_reply_is_given_again(desk: ReplayDesk, ledger: Ledger) -> None:
    number = await sent(desk)
    again = await desk.begin(a_request(incarnation="inc-2"), retry=True)
    assert isinstance(again, Replay)
    assert again.reply == replace(CREATED, headers=(*CREATED.headers, REPLAYED_HEADER))
    entry = ledger.entry(again.number)
    assert entry is not None
    assert entry.draft.decision is Decision.REPLAYED
    assert entry.draft.reason == f"entry {number}"
    assert not entry.is_effect


@pytest.mark.parametrize("status", [200, 204, 302, 400, 404, 409, 422])
def test_an_answer_is_recorded_whatever_it_says(desk: ReplayDesk, status: int) -> None:
    @in_a_loop
    async def ask() -> None:
        await sent(desk, status)
        assert isinstance(await desk.begin(a_request(), retry=False), Replay)

    ask()


@pytest.mark.parametrize("status", [401, 403, 407, 429])
def test_after_a_refusal_of_the_other_side_the_key_is_free(
    desk: ReplayDesk, ledger: Ledger, status: int
) -> None:
    @in_a_loop
    async def ask() -> None:
        number = await sent(desk, status)
        entry = ledger.entry(number)
        assert entry is not None
        assert not entry.is_effect
        assert isinstance(await desk.begin(a_request(body="another"), retry=False), Go)

    ask()


@in_a_loop
async def test_what_was_never_sent_leaves_the_key_free(desk: ReplayDesk) -> None:
    await sent(desk, None, OutcomeState.FAILED, None)
    assert isinstance(await desk.begin(a_request(), retry=False), Go)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (500, OutcomeState.DONE),
        (503, OutcomeState.DONE),
        (None, OutcomeState.UNKNOWN),
        (200, OutcomeState.UNKNOWN),
    ],
)
def test_a_fault_or_a_cut_is_unknown_and_said_in_words(
    desk: ReplayDesk, ledger: Ledger, status: int | None, state: OutcomeState
) -> None:
    @in_a_loop
    async def ask() -> None:
        await sent(desk, status, state)
        refused = await desk.begin(a_request(), retry=False)
        assert isinstance(refused, Refuse)
        assert refused.status == 409
        assert "'k' was begun on branch main at" in refused.words
        assert "Branchpoint-Unknown: retry" in refused.words
        assert "%ledger --accept k`" in refused.words
        entry = ledger.entry(refused.number)
        assert entry is not None
        assert entry.draft.decision is Decision.REFUSED

    ask()


@in_a_loop
async def test_a_fault_is_not_said_to_have_been_a_cut(desk: ReplayDesk) -> None:
    await sent(desk, 503)
    refused = await desk.begin(a_request(), retry=False)
    assert isinstance(refused, Refuse)
    assert "and answered with 503: nobody knows" in refused.words


@in_a_loop
async def test_one_in_doubt_can_be_accepted_though_its_key_was_used_elsewhere_since(
    desk: ReplayDesk, ledger: Ledger
) -> None:
    number = await sent(desk, 500)
    elsewhere = await desk.begin(a_request("https://api.example.org/payments"), retry=False)
    assert isinstance(elsewhere, Go)
    desk.finish(elsewhere.number, outcome(201), CREATED)
    once = OnceDesk(ledger, lambda _: False)
    accepted = once.accept("s-1", "k", None, kind=EntryKind.REQUEST)
    assert accepted.number == number
    assert isinstance(await desk.begin(a_request(), retry=False), Replay)


@in_a_loop
async def test_one_that_is_accepted_keeps_what_it_has_cost(
    desk: ReplayDesk, ledger: Ledger
) -> None:
    number = await sent(desk, 500)
    OnceDesk(ledger, lambda _: False).accept("s-1", "k", None, kind=EntryKind.REQUEST)
    entry = ledger.entry(number)
    assert entry is not None
    assert entry.outcome is not None
    assert (entry.outcome.state, entry.outcome.status) == (OutcomeState.ACCEPTED, 500)


@in_a_loop
async def test_an_unknown_one_is_sent_again_if_told(desk: ReplayDesk) -> None:
    await sent(desk, 500)
    assert isinstance(await desk.begin(a_request(), retry=True), Go)


@in_a_loop
async def test_a_retry_that_is_refused_over_there_is_not_used_up(desk: ReplayDesk) -> None:
    await sent(desk, 500)
    retried = await desk.begin(a_request(), retry=True)
    assert isinstance(retried, Go)
    desk.finish(retried.number, outcome(401), CREATED)
    assert isinstance(await desk.begin(a_request(), retry=False), Go)


@in_a_loop
async def test_another_body_or_query_under_the_key_is_refused(desk: ReplayDesk) -> None:
    await sent(desk)
    for another in (a_request(body="f-2"), a_request("https://api.example.org/orders?dry=1")):
        refused = await desk.begin(another, retry=True)
        assert isinstance(refused, Refuse)
        assert refused.status == 422


@in_a_loop
async def test_another_method_host_or_path_is_another_key(desk: ReplayDesk) -> None:
    await sent(desk)
    for another in (
        a_request(method="PUT"),
        a_request("https://other.example.org/orders"),
        a_request("https://api.example.org/orders/2"),
    ):
        assert isinstance(await desk.begin(another, retry=False), Go)
    assert isinstance(await desk.begin(a_request(), retry=False), Replay)


@in_a_loop
async def test_while_one_is_under_way_another_waits_for_its_reply(desk: ReplayDesk) -> None:
    admission = await desk.begin(a_request(), retry=False)
    assert isinstance(admission, Go)
    waiting = await now_waiting(desk.begin(a_request(incarnation="inc-2"), retry=False))
    desk.finish(admission.number, outcome(201), CREATED)
    assert isinstance(await waiting, Replay)


@in_a_loop
async def test_one_that_outlives_its_machine_is_still_waited_for(desk: ReplayDesk) -> None:
    admission = await desk.begin(a_request(), retry=False)
    assert isinstance(admission, Go)
    desk.ended("inc-1")
    waiting = await now_waiting(desk.begin(a_request(incarnation="inc-2"), retry=False))
    desk.finish(admission.number, outcome(201), CREATED)
    assert isinstance(await waiting, Replay)


@in_a_loop
async def test_after_a_host_that_was_killed_in_between_it_is_unknown(
    desk: ReplayDesk, ledger: Ledger
) -> None:
    await desk.begin(a_request(), retry=False)
    after = ReplayDesk(ledger)
    assert isinstance(await after.begin(a_request(incarnation="inc-2"), retry=False), Refuse)
    [entry, _] = ledger.entries("s-1")
    assert entry.outcome is not None
    assert entry.outcome.state is OutcomeState.UNKNOWN


@in_a_loop
async def test_of_what_a_machine_asked_for_and_nobody_is_at_nobody_knows(
    desk: ReplayDesk, ledger: Ledger
) -> None:
    number = ledger.begin(a_request())
    desk.ended("inc-1")
    entry = ledger.entry(number)
    assert entry is not None
    assert entry.outcome is not None
    assert entry.outcome.state is OutcomeState.UNKNOWN


@in_a_loop
async def test_a_reply_too_large_to_keep_is_told_of_instead(desk: ReplayDesk) -> None:
    await sent(desk, 200, reply=None)
    refused = await desk.begin(a_request(), retry=True)
    assert isinstance(refused, Refuse)
    assert refused.status == 409
    assert "took place" in refused.words
    assert "200" in refused.words


@in_a_loop
async def test_one_that_was_accepted_is_answered_without_content(
    desk: ReplayDesk, ledger: Ledger
) -> None:
    number = await sent(desk, 500)
    ledger.end(number, outcome(None, OutcomeState.ACCEPTED))
    again = await desk.begin(a_request(), retry=False)
    assert isinstance(again, Replay)
    assert (again.reply.status, again.reply.body) == (204, b"")


@in_a_loop
async def test_a_key_that_is_none_is_refused(desk: ReplayDesk, ledger: Ledger) -> None:
    refused = await desk.begin(replace(a_request(), key="k" * 5000), retry=False)
    assert isinstance(refused, Refuse)
    assert refused.status == 400
    assert [entry.draft.key for entry in ledger.entries("s-1")] == [""]


@given(
    status=some.integers(100, 599),
    reason=some.binary(),
    headers=some.lists(some.tuples(some.binary(), some.binary())),
    body=some.binary(),
)
def test_a_reply_comes_back_as_it_was_kept(
    status: int, reason: bytes, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    reply = RecordedReply(status=status, reason=reason, headers=tuple(headers), body=body)
    assert _from_bytes(_to_bytes(reply)) == reply

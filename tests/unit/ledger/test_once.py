"""The desk for `once`: one holder at a time, its outcome for everybody, and no guesses."""
# pyright: reportPrivateUsage=false

import asyncio

import pytest
from tests.unit.ledger.callers import Caller, Living, in_a_loop, now_waiting

from branchpoint_vmruntime.errors import StorageError, UnknownNameError, UsageError
from branchpoint_vmruntime.ledger import Decision, EntryKind, OutcomeState
from branchpoint_vmruntime.ledger.intents import LONGEST_KEY
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.ledger.once import Begun, OnceDesk

MAIN = Caller()
FORK = Caller("inc-2", "ridge")


@pytest.fixture
def desk(ledger: Ledger, alive: Living) -> OnceDesk:
    return OnceDesk(ledger, alive)


async def ran(desk: OnceDesk, who: Caller = MAIN, *, ok: bool = True) -> int:
    """A function that was run under the key `k`."""
    begun = await desk.begin(who, "k", retry=False)
    assert begun.state == "run"
    desk.end(who, begun.number, ok=ok, payload=b"result")
    return begun.number


async def lost(desk: OnceDesk, alive: Living) -> int:
    """One whose machine ended while it ran."""
    begun = await desk.begin(MAIN, "k", retry=False)
    alive.gone.add(MAIN.incarnation)
    await desk.ended(MAIN.incarnation)
    return begun.number


def states(ledger: Ledger) -> list[OutcomeState | None]:
    return [entry.outcome and entry.outcome.state for entry in ledger.entries("s-1")]


@in_a_loop
async def test_the_intent_is_written_before_it_is_run(desk: OnceDesk, ledger: Ledger) -> None:
    begun = await desk.begin(FORK, "k", retry=False)
    [entry] = ledger.entries("s-1")
    assert begun == Begun(state="run", number=entry.number)
    assert (entry.draft.key, entry.draft.branch, entry.outcome) == ("k", "ridge", None)


@pytest.mark.parametrize(("ok", "state"), [(True, "done"), (False, "failed")])
def test_its_outcome_is_given_to_whoever_asks_later(
    desk: OnceDesk,
    ok: bool,  # noqa: FBT001
    state: str,
) -> None:
    async def ask() -> None:
        number = await ran(desk, ok=ok)
        begun = await desk.begin(FORK, "k", retry=False)
        assert (begun.state, begun.number, begun.payload) == (state, number, b"result")

    asyncio.run(ask())


@in_a_loop
async def test_an_outcome_given_again_is_on_record_and_is_no_effect(
    desk: OnceDesk, ledger: Ledger
) -> None:
    await ran(desk)
    await desk.begin(FORK, "k", retry=False)
    again = ledger.entries("s-1")[-1]
    assert (again.draft.decision, again.draft.branch) == (Decision.REPLAYED, "ridge")
    assert not again.is_effect


@in_a_loop
async def test_done_is_done_even_for_a_retry(desk: OnceDesk) -> None:
    await ran(desk)
    assert (await desk.begin(FORK, "k", retry=True)).state == "done"


@in_a_loop
async def test_what_failed_is_begun_anew_by_a_retry(desk: OnceDesk) -> None:
    number = await ran(desk, ok=False)
    begun = await desk.begin(FORK, "k", retry=True)
    assert begun.state == "run"
    assert begun.number > number


@in_a_loop
async def test_another_key_or_session_is_another_matter(desk: OnceDesk) -> None:
    await ran(desk)
    assert (await desk.begin(MAIN, "other", retry=False)).state == "run"
    assert (await desk.begin(Caller(session="s-2"), "k", retry=False)).state == "run"


@in_a_loop
async def test_while_it_is_under_way_others_wait_for_its_outcome(desk: OnceDesk) -> None:
    begun = await desk.begin(MAIN, "k", retry=False)
    waiting = [
        await now_waiting(desk.begin(who, "k", retry=retry))
        for who, retry in ((FORK, False), (MAIN, False), (FORK, True))
    ]
    desk.end(MAIN, begun.number, ok=True, payload=b"result")
    assert [(await each).payload for each in waiting] == [b"result"] * 3


@in_a_loop
async def test_one_of_several_that_wait_retries_what_failed_and_the_rest_wait_on(
    desk: OnceDesk,
) -> None:
    begun = await desk.begin(MAIN, "k", retry=False)
    waiting = [await now_waiting(desk.begin(FORK, "k", retry=True)) for _ in range(2)]
    desk.end(MAIN, begun.number, ok=False, payload=b"error")
    done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    anew = done.pop().result()
    assert anew.state == "run"
    desk.end(FORK, anew.number, ok=True, payload=b"result")
    assert (await pending.pop()).payload == b"result"


@in_a_loop
async def test_who_waits_may_give_up(desk: OnceDesk) -> None:
    begun = await desk.begin(MAIN, "k", retry=False)
    waiting = await now_waiting(desk.begin(FORK, "k", retry=False))
    waiting.cancel()
    await asyncio.wait([waiting])
    desk.end(MAIN, begun.number, ok=True, payload=b"result")
    assert (await desk.begin(FORK, "k", retry=False)).state == "done"


@in_a_loop
async def test_of_what_a_machine_that_is_gone_had_under_way_nobody_knows(
    desk: OnceDesk, ledger: Ledger, alive: Living
) -> None:
    number = await lost(desk, alive)
    assert states(ledger) == [OutcomeState.UNKNOWN]
    begun = await desk.begin(FORK, "k", retry=False)
    assert (begun.state, begun.number, begun.payload) == ("unknown", number, None)
    at = ledger.entries("s-1")[0].at
    assert f"'k' was begun on branch main at {at:%Y-%m-%d %H:%M:%S} UTC" in begun.words


@in_a_loop
async def test_who_waits_for_a_machine_that_ends_is_told(desk: OnceDesk, alive: Living) -> None:
    await desk.begin(MAIN, "k", retry=False)
    waiting = await now_waiting(desk.begin(FORK, "k", retry=False))
    alive.gone.add(MAIN.incarnation)
    await desk.ended(MAIN.incarnation)
    assert (await waiting).state == "unknown"


@in_a_loop
async def test_a_host_that_was_killed_in_between_leaves_an_unknown_outcome(
    desk: OnceDesk, ledger: Ledger
) -> None:
    await desk.begin(MAIN, "k", retry=False)
    after = OnceDesk(ledger, lambda incarnation: incarnation == FORK.incarnation)
    assert (await after.begin(FORK, "k", retry=False)).state == "unknown"
    assert states(ledger) == [OutcomeState.UNKNOWN]


@in_a_loop
async def test_the_end_of_one_machine_leaves_what_others_have_under_way(
    desk: OnceDesk, ledger: Ledger
) -> None:
    await desk.begin(FORK, "k", retry=False)
    await desk.ended(MAIN.incarnation)
    assert states(ledger) == [None]


@in_a_loop
async def test_an_unknown_one_is_begun_anew_by_a_retry(desk: OnceDesk, alive: Living) -> None:
    await lost(desk, alive)
    assert (await desk.begin(FORK, "k", retry=True)).state == "run"


@in_a_loop
async def test_a_machine_woken_from_the_middle_cannot_end_what_another_began(
    desk: OnceDesk, ledger: Ledger, alive: Living
) -> None:
    number = await lost(desk, alive)
    told = desk.end(FORK, number, ok=True, payload=b"forged")
    assert told.state == "unknown"
    assert states(ledger) == [OutcomeState.UNKNOWN]
    assert ledger.result(number) is None


@in_a_loop
async def test_the_first_outcome_told_is_the_one(desk: OnceDesk) -> None:
    number = await ran(desk)
    told = desk.end(MAIN, number, ok=False, payload=b"second")
    assert (told.state, told.payload) == ("done", b"result")


@in_a_loop
async def test_nothing_is_ended_that_is_not_the_session_s_own(
    desk: OnceDesk, ledger: Ledger
) -> None:
    number = await ran(desk)
    for who, other in ((Caller(session="s-2"), number), (MAIN, number + 1)):
        with pytest.raises(UsageError, match="nothing was begun"):
            desk.end(who, other, ok=True, payload=b"")


@in_a_loop
async def test_a_process_that_is_gone_leaves_an_unknown_outcome(desk: OnceDesk) -> None:
    begun = await desk.begin(MAIN, "k", retry=False)
    waiting = await now_waiting(desk.begin(MAIN, "k", retry=False))
    desk.give_up(MAIN, begun.number)
    assert (await waiting).state == "unknown"


@in_a_loop
async def test_giving_up_what_has_ended_changes_nothing(desk: OnceDesk) -> None:
    desk.give_up(MAIN, await ran(desk))
    assert (await desk.begin(FORK, "k", retry=False)).state == "done"


@in_a_loop
async def test_what_nobody_was_there_to_run_is_free_again(desk: OnceDesk) -> None:
    begun = await desk.begin(MAIN, "k", retry=False)
    desk.withdraw(MAIN, begun.number)
    assert (await desk.begin(FORK, "k", retry=False)).state == "run"


@in_a_loop
async def test_an_unknown_one_that_is_accepted_is_done(
    desk: OnceDesk, ledger: Ledger, alive: Living
) -> None:
    await lost(desk, alive)
    entry = desk.accept("s-1", "k", b"as told")
    assert entry.outcome is not None
    assert states(ledger) == [OutcomeState.ACCEPTED]
    begun = await desk.begin(FORK, "k", retry=False)
    assert (begun.state, begun.payload) == ("done", b"as told")


@in_a_loop
async def test_one_that_is_accepted_without_a_result_has_none(
    desk: OnceDesk, alive: Living
) -> None:
    await lost(desk, alive)
    desk.accept("s-1", "k", None)
    begun = await desk.begin(FORK, "k", retry=False)
    assert (begun.state, begun.payload) == ("done", None)


@in_a_loop
async def test_an_allowed_retry_is_for_whoever_asks_next_and_once(
    desk: OnceDesk, ledger: Ledger, alive: Living
) -> None:
    await lost(desk, alive)
    desk.allow_retry("s-1", "k")
    assert states(ledger) == [OutcomeState.UNKNOWN]
    begun = await desk.begin(FORK, "k", retry=False)
    assert begun.state == "run"
    desk.end(FORK, begun.number, ok=False, payload=b"error")
    assert (await desk.begin(FORK, "k", retry=False)).state == "failed"


@in_a_loop
async def test_nobody_decides_about_what_is_known_or_under_way(desk: OnceDesk) -> None:
    with pytest.raises(UnknownNameError, match="k"):
        desk.accept("s-1", "k", None)
    number = (await desk.begin(MAIN, "k", retry=False)).number
    with pytest.raises(UsageError, match="under way on branch main"):
        desk.allow_retry("s-1", "k")
    desk.end(MAIN, number, ok=True, payload=b"")
    with pytest.raises(UsageError, match="known: done"):
        desk.accept("s-1", "k", None)


@in_a_loop
async def test_a_request_is_decided_about_by_its_kind(desk: OnceDesk, alive: Living) -> None:
    await lost(desk, alive)
    with pytest.raises(UnknownNameError):
        desk.accept("s-1", "k", None, kind=EntryKind.REQUEST)


@pytest.mark.parametrize("key", ["", "k" * (LONGEST_KEY + 1), "\ud800"])
def test_a_key_that_is_none_is_refused(desk: OnceDesk, ledger: Ledger, key: str) -> None:
    with pytest.raises(UsageError, match="key"):
        asyncio.run(desk.begin(MAIN, key, retry=False))
    assert ledger.position() == 0


@in_a_loop
async def test_an_outcome_that_cannot_be_written_leaves_nobody_waiting(
    desk: OnceDesk, ledger: Ledger
) -> None:
    begun = await desk.begin(MAIN, "k", retry=False)
    waiting = await now_waiting(desk.begin(MAIN, "k", retry=False))
    ledger._database.rows("PRAGMA max_page_count = 1")
    with pytest.raises(StorageError):
        desk.end(MAIN, begun.number, ok=True, payload=bytes(1 << 20))
    ledger._database.rows("PRAGMA max_page_count = 100000")
    assert (await waiting).state == "unknown"


BORROWER = Caller("inc-9", "ridge", "s-2")


@in_a_loop
async def test_what_was_done_in_a_notebook_is_done_in_the_one_that_continues_its_branch(
    desk: OnceDesk, ledger: Ledger, alive: Living
) -> None:
    number = await ran(desk)
    ledger.join(BORROWER.session, lambda: [MAIN.session])
    there = OnceDesk(ledger, alive)
    begun = await there.begin(BORROWER, "k", retry=False)
    assert begun == Begun(state="done", number=number, payload=b"result")


@in_a_loop
async def test_of_what_is_under_way_in_another_notebook_nobody_knows_and_it_goes_on_there(
    desk: OnceDesk, ledger: Ledger, alive: Living
) -> None:
    held = await desk.begin(MAIN, "k", retry=False)
    ledger.join(BORROWER.session, lambda: [MAIN.session])
    begun = await OnceDesk(ledger, alive).begin(BORROWER, "k", retry=False)
    assert (begun.state, begun.number) == ("unknown", held.number)
    assert desk.end(MAIN, held.number, ok=True, payload=b"result").state == "done"


@in_a_loop
async def test_keys_of_sessions_that_have_nothing_in_common_are_others(
    desk: OnceDesk, ledger: Ledger, alive: Living
) -> None:
    await ran(desk)
    begun = await OnceDesk(ledger, alive).begin(BORROWER, "k", retry=False)
    assert begun.state == "run"

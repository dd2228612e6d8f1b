"""What machines ask about `once`, in JSON they made up."""

import asyncio
import contextlib
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from tests.unit.ledger.callers import Caller, Living, in_a_loop, now_waiting

from branchpoint_vmruntime.errors import BranchpointError, UsageError
from branchpoint_vmruntime.ledger.guest_calls import OnceCalls
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.ledger.once import OnceDesk

MAIN = Caller()
FORK = Caller("inc-2", "ridge")
BEGIN: dict[str, Any] = {"step": "begin", "key": "k", "retry": False, "ticket": "t-1"}
PAYLOAD = b64encode(b"result").decode()


@pytest.fixture
def calls(ledger: Ledger, alive: Living) -> OnceCalls:
    return OnceCalls(OnceDesk(ledger, alive))


async def held(calls: OnceCalls, ticket: str = "t-1") -> tuple[asyncio.Task[Any], asyncio.Event]:
    """A call that is left open, and what ends it."""
    gone = asyncio.Event()
    return await now_waiting(calls.answer(MAIN, {"step": "hold", "ticket": ticket}, gone)), gone


async def ask(calls: OnceCalls, who: Caller = MAIN, **request: object) -> dict[str, Any]:
    """A call whose caller waits."""
    answer = await calls.answer(who, request, asyncio.Event())
    assert answer is not None
    return answer


@in_a_loop
async def test_what_is_begun_and_ended_is_told_to_the_next(calls: OnceCalls) -> None:
    hold, gone = await held(calls)
    begun = await ask(calls, **BEGIN)
    assert begun == {"state": "run", "number": 1, "words": "", "payload": None}
    ended = await ask(calls, step="end", number=1, ok=True, payload=PAYLOAD)
    assert ended["state"] == "done"
    gone.set()
    assert await hold is None
    again = await ask(calls, FORK, step="begin", key="k", retry=False)
    assert (again["state"], again["payload"]) == ("done", PAYLOAD)


@in_a_loop
async def test_what_a_killed_process_had_under_way_is_unknown(calls: OnceCalls) -> None:
    _, gone = await held(calls)
    await ask(calls, **BEGIN)
    waiting = await now_waiting(ask(calls, FORK, step="begin", key="k", retry=False))
    gone.set()
    told = await waiting
    assert told["state"] == "unknown"
    assert "'k'" in told["words"]


@in_a_loop
async def test_who_is_gone_before_it_is_begun_leaves_the_key_free(calls: OnceCalls) -> None:
    hold, gone = await held(calls)
    gone.set()
    await hold
    with pytest.raises(UsageError, match="gone"):
        await ask(calls, **BEGIN)
    assert (await ask(calls, FORK, step="begin", key="k"))["state"] == "run"


@in_a_loop
async def test_who_hangs_up_waits_no_more(calls: OnceCalls) -> None:
    await ask(calls, step="begin", key="k")
    gone = asyncio.Event()
    waiting = await now_waiting(calls.answer(FORK, {"step": "begin", "key": "k"}, gone))
    gone.set()
    assert await waiting is None


@in_a_loop
async def test_a_ticket_is_of_one_machine(calls: OnceCalls) -> None:
    await held(calls)
    with pytest.raises(UsageError, match="gone"):
        await ask(calls, FORK, **BEGIN)


@in_a_loop
async def test_what_failed_is_accepted_with_a_result(calls: OnceCalls) -> None:
    number = (await ask(calls, step="begin", key="k"))["number"]
    await ask(calls, step="end", number=number, ok=False, payload="")
    assert await ask(calls, step="accept", key="k", payload=PAYLOAD) == {"number": number}
    assert (await ask(calls, FORK, step="begin", key="k"))["payload"] == PAYLOAD


SCALARS = some.none() | some.booleans() | some.integers() | some.floats() | some.text()


@given(
    request=some.fixed_dictionaries(
        {"step": some.sampled_from(["begin", "end", "accept", "hold", "", 7])},
        optional=dict.fromkeys(("key", "retry", "number", "ok", "payload", "ticket"), SCALARS),
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_made_up_calls_are_answered_or_refused_in_words(
    ledger: Ledger, request: dict[str, Any]
) -> None:
    @in_a_loop
    async def call() -> None:
        calls = OnceCalls(OnceDesk(ledger, Living()))
        gone = asyncio.Event()
        answering = asyncio.create_task(calls.answer(MAIN, request, gone))
        await asyncio.sleep(0)
        gone.set()
        with contextlib.suppress(BranchpointError):
            await answering

    call()

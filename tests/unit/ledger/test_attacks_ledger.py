"""What machines make the ledger keep is bounded, and what is left out is not lied about."""

import pytest
from tests.unit.ledger.callers import Caller, Living, in_a_loop
from tests.unit.ledger.facts import NOON, a_draft

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.ledger import EntryKind, Outcome, OutcomeState
from branchpoint_vmruntime.ledger import ledger as book
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.ledger.once import OnceDesk
from branchpoint_vmruntime.ledger.replay import Go, RecordedReply, Refuse, ReplayDesk

MAIN = Caller()


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "MOST_RESULTS_BYTES", 20_000)


@in_a_loop
async def test_results_of_functions_have_an_end(ledger: Ledger, alive: Living) -> None:
    desk = OnceDesk(ledger, alive)
    for key in ("a", "b"):
        begun = await desk.begin(MAIN, key, retry=False)
        desk.end(MAIN, begun.number, ok=True, payload=bytes(9_000))
    begun = await desk.begin(MAIN, "c", retry=False)
    with pytest.raises(UsageError, match="keeps no more results"):
        desk.end(MAIN, begun.number, ok=True, payload=bytes(9_000))
    # The machine then says that it is not kept, which always fits.
    assert desk.end(MAIN, begun.number, ok=True, payload=b"not kept").state == "done"
    assert (await desk.begin(MAIN, "c", retry=False)).payload == b"not kept"


@in_a_loop
async def test_what_was_kept_before_the_ledger_was_opened_counts(
    ledger: Ledger, alive: Living
) -> None:
    desk = OnceDesk(ledger, alive)
    before = ledger.begin(a_draft("b"))
    ledger.end(before, Outcome(state=OutcomeState.DONE, at=NOON), result=bytes(15_000))
    begun = await desk.begin(MAIN, "a", retry=False)
    with pytest.raises(UsageError, match="keeps no more results"):
        desk.end(MAIN, begun.number, ok=True, payload=bytes(9_000))


@in_a_loop
async def test_a_reply_beyond_it_is_not_kept_and_its_request_is_not_sent_again(
    ledger: Ledger,
) -> None:
    desk = ReplayDesk(ledger)
    draft = a_draft("k", kind=EntryKind.REQUEST)
    admission = await desk.begin(draft, retry=False)
    assert isinstance(admission, Go)
    reply = RecordedReply(status=200, reason=b"OK", headers=(), body=bytes(30_000))
    desk.finish(admission.number, Outcome(at=NOON, state=OutcomeState.DONE, status=200), reply)
    again = await desk.begin(draft, retry=False)
    assert isinstance(again, Refuse)
    assert again.status == 409

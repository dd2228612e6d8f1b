"""What going back leaves as it is outside: found, counted, said in one sentence."""

import re

from tests.support.front_end import in_a_loop
from tests.unit.kernel.paper_session import PaperSession, as_session, on_paper

from branchpoint_kernel.effects import effects_lines, effects_record, short_place
from branchpoint_kernel.leaving import Effects, Leavings
from branchpoint_kernel.rendering import as_text
from branchpoint_vmruntime.errors import StorageError
from branchpoint_vmruntime.ledger import Decision, EntryKind, Outcome, OutcomeState

NOT_UNDONE = "since then {were} not undone"


def sentence(session: PaperSession, since: str) -> str:
    """What a rollback of main would say, the times of day left out."""
    target = session.find(since)
    effects = Leavings(as_session(session)).since(target, "main")
    return re.sub(r"\d\d:\d\d:\d\d", "T", as_text(effects_lines(effects, NOT_UNDONE)))


@in_a_loop
async def test_actions_are_named_and_reads_are_counted() -> None:
    async with on_paper("main") as session:
        session.wrote("POST", "http://a.example.org/before", status=201)
        session.save("loaded")
        session.wrote("POST", "http://a.example.org/orders?k=v", status=201)
        session.wrote("GET", "http://a.example.org/")
        session.wrote("HEAD", "http://a.example.org/")
        session.wrote("", "", kind=EntryKind.ONCE, key="charge-42", status=None)
        session.wrote("", "b.example.org:443", kind=EntryKind.TUNNEL, status=None, sent_bytes=3100)
        assert sentence(session, "loaded") == (
            "⚠ 3 external actions since then were not undone: "
            "POST http://a.example.org/orders 201 (T), once 'charge-42' done (T), "
            "connection to b.example.org:443, 3.1 kB sent (T); and 2 reads"
        )


@in_a_loop
async def test_one_action_is_spoken_of_as_one() -> None:
    async with on_paper("main") as session:
        session.save("loaded")
        session.wrote("DELETE", "http://a.example.org/1", status=204)
        session.wrote("GET", "http://a.example.org/")
        assert sentence(session, "loaded") == (
            "⚠ 1 external action since then was not undone: "
            "DELETE http://a.example.org/1 204 (T); and 1 read"
        )


@in_a_loop
async def test_the_last_five_are_named_and_the_others_counted() -> None:
    async with on_paper("main") as session:
        session.save("loaded")
        for number in range(8):
            session.wrote("PUT", f"http://a.example.org/{number}")
        told = sentence(session, "loaded")
        assert told.startswith("⚠ 8 external actions since then were not undone: 3 earlier ones, ")
        assert [f"/{n} " in told for n in range(8)] == [False] * 3 + [True] * 5


@in_a_loop
async def test_reads_alone_are_no_warning() -> None:
    async with on_paper("main") as session:
        session.save("loaded")
        session.wrote("GET", "http://a.example.org/")
        assert sentence(session, "loaded") == "○ 1 read outside since then was not undone"


@in_a_loop
async def test_nothing_is_said_of_what_did_not_take_place() -> None:
    async with on_paper("main") as session:
        session.save("loaded")
        session.refused("http://a.example.org/", "no")
        session.wrote("POST", "http://a.example.org/", state=OutcomeState.FAILED)
        session.wrote("POST", "http://a.example.org/", decision=Decision.REPLAYED)
        session.wrote("allow", "a.example.org:80", kind=EntryKind.POLICY)
        assert sentence(session, "loaded") == ""


@in_a_loop
async def test_what_was_cut_off_is_said_to_be_unknown() -> None:
    async with on_paper("main") as session:
        session.save("loaded")
        session.wrote("POST", "http://a.example.org/", state=OutcomeState.UNKNOWN, status=None)
        assert "POST http://a.example.org/ outcome unknown (T)" in sentence(session, "loaded")


@in_a_loop
async def test_what_a_machine_does_up_to_its_end_belongs_to_what_it_leaves() -> None:
    async with on_paper("main") as session:
        target = session.save("loaded")
        under_way = session.wrote("POST", "http://a.example.org/1", state=None)
        leavings = Leavings(as_session(session))
        leaving = leavings.before(target, None)
        session.wrote("POST", "http://a.example.org/2", status=201)
        unknown = Outcome(at=leaving.effects.entries[0].at, state=OutcomeState.UNKNOWN)
        session.outside.ledger.end(under_way, unknown)
        session.made["main"].incarnation = "i-next"
        session.wrote("POST", "http://a.example.org/3", status=201)
        effects = (await leavings.after(leaving)).entries
        assert [entry.draft.url[-1] for entry in effects] == ["1", "2"]
        assert effects[0].outcome is not None
        assert effects[0].outcome.state is OutcomeState.UNKNOWN


@in_a_loop
async def test_a_ledger_that_cannot_be_read_is_said_and_holds_nobody_back() -> None:
    async with on_paper("main") as session:
        target = session.save("loaded")

        def fail(*_: object) -> None:
            raise StorageError("the ledger is gone")

        session.outside.not_undone = fail  # pyright: ignore[reportAttributeAccessIssue]
        leavings = Leavings(as_session(session))
        effects = await leavings.after(leavings.before(target, None))
        assert "cannot be told   the ledger is gone" in as_text(effects_lines(effects, NOT_UNDONE))
        assert effects_record(effects) is None


def test_no_effects_are_no_line() -> None:
    assert effects_lines(Effects(), NOT_UNDONE) == []


def test_a_long_place_keeps_its_beginning_and_its_end() -> None:
    place = short_place("http://api.example.org/" + "x" * 100 + "/orders/1")
    assert place.startswith("http://api.example.org/x")
    assert place.endswith("x/orders/1")
    assert len(place) <= 60


def test_what_steers_a_terminal_is_not_passed_on() -> None:
    assert "\x1b" not in short_place("http://a.example.org/\x1b[2J")

"""What the magics of the outside world do, say and leave on record."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.fake_streams import FakeEnd
from tests.support.front_end import in_a_loop
from tests.unit.kernel.paper_session import Asked, on_paper

from branchpoint_kernel.outside_rendering import ledger_lines
from branchpoint_kernel.rendering import as_text
from branchpoint_vmruntime.errors import GuestRefusedError, UnknownNameError, UsageError
from branchpoint_vmruntime.ledger import Decision, Draft, Entry, EntryKind, OutcomeState, Usage
from branchpoint_vmruntime.lineage import BranchState, CheckpointCost, CheckpointKind, SessionId
from branchpoint_vmruntime.outside.facts import Limits, OutsideSpec


@in_a_loop
async def test_at_first_nothing_may_leave() -> None:
    async with on_paper("main") as session:
        ask = Asked(session)
        assert "nothing may leave main" in await ask("%egress")
        assert ask.record == {"rules": {"main": []}, "refused": []}


@in_a_loop
async def test_what_is_allowed_is_said_and_holds_for_that_branch_alone() -> None:
    async with on_paper("main", "other") as session:
        ask = Asked(session)
        told = await ask("%egress allow api.example.org --method GET *.example.com:8443")
        assert "main may reach" in told
        assert "api.example.org, GET alone" in told
        assert session.outside.policies.judge("main", "api.example.org", 443, "GET")
        assert session.outside.policies.rules("other") == ()
        (rule, _) = ask.record["rules"]["main"]
        assert (rule["host"], rule["methods"], rule["ports"]) == (
            "api.example.org",
            ["GET"],
            [80, 443],
        )


@in_a_loop
async def test_all_is_every_live_branch() -> None:
    async with on_paper("main", "other", "parked") as session:
        session.made["parked"].state = BranchState.PARKED
        ask = Asked(session)
        await ask("%egress allow api.example.org --branch all")
        assert set(ask.record["rules"]) == {"main", "other"}
        assert session.outside.policies.rules("parked") == ()


@in_a_loop
async def test_what_is_denied_is_open_no_more() -> None:
    async with on_paper("main") as session:
        ask = Asked(session)
        await ask("%egress allow api.example.org")
        assert "nothing may leave main" in await ask("%egress deny api.example.org")


@in_a_loop
async def test_denying_what_is_not_allowed_names_what_is() -> None:
    async with on_paper("main") as session:
        ask = Asked(session)
        await ask("%egress allow api.example.org")
        with pytest.raises(UnknownNameError, match=r"there is: api\.example\.org"):
            await ask("%egress deny other.example.org")


@in_a_loop
async def test_refusals_of_the_branch_are_shown_with_their_reason() -> None:
    async with on_paper("main", "other") as session:
        session.refused("http://a.example.org/x?k=1", "a.example.org no")
        session.refused("http://b.example.org/", "no", branch="other")
        ask = Asked(session)
        told = await ask("%egress")
        assert "GET http://a.example.org/x" in told
        assert "a.example.org no" in told
        assert "b.example.org" not in told
        assert [entry["url"] for entry in ask.record["refused"]] == ["http://a.example.org/x?k=1"]


@pytest.mark.parametrize(
    "line",
    [
        "%egress allow api.example.org",
        "%egress deny api.example.org",
        "%secrets add KEY --host api.example.org --from env:HOME",
        "%secrets remove KEY",
        "%ledger --accept order-1",
        "%ledger --retry order-1",
        "%costs --raise tokens=5",
    ],
)
def test_code_in_a_machine_changes_nothing_of_the_edge(line: str) -> None:
    @in_a_loop
    async def refused() -> None:
        async with on_paper("main", "other") as session:
            with pytest.raises(UsageError, match="only a cell of the notebook"):
                await Asked(session)(line, inside="other")
            assert session.outside.ledger.position() == 0

    refused()


@pytest.mark.parametrize("line", ["%egress", "%secrets", "%ledger", "%costs", "%forward"])
def test_code_in_a_machine_may_ask_how_things_are(line: str) -> None:
    @in_a_loop
    async def told() -> None:
        async with on_paper("main", "other") as session:
            assert await Asked(session)(line, inside="other")

    told()


@in_a_loop
async def test_code_in_a_machine_is_told_of_its_own_branch() -> None:
    async with on_paper("main", "other") as session:
        assert "nothing may leave other" in await Asked(session)("%egress", inside="other")


@in_a_loop
async def test_a_secret_is_listed_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "s3cr3t-value")
    async with on_paper("main") as session:
        ask = Asked(session)
        added = await ask("%secrets add API_KEY --host api.example.org --from env:API_KEY")
        assert 'os.environ["API_KEY"] in the machines is a placeholder' in added
        listed = await ask("%secrets")
        assert "API_KEY   api.example.org · in Authorization · from $API_KEY" in listed
        assert ask.record == {
            "secrets": [
                {
                    "name": "API_KEY",
                    "hosts": ["api.example.org"],
                    "header": "Authorization: Bearer {}",
                    "variable": "API_KEY",
                    "file": None,
                }
            ]
        }
        assert "s3cr3t" not in added + listed + ask.html
        assert "there are no secrets" not in await ask("%secrets")
        await ask("%secrets remove API_KEY")
        assert "there are no secrets" in await ask("%secrets")


@in_a_loop
async def test_the_ledger_is_a_table_with_the_newest_last() -> None:
    async with on_paper("main") as session:
        usage = Usage(model="m", tokens_in=120, tokens_out=30, micros=12_300)
        session.wrote("GET", "http://a.example.org/")
        session.wrote("POST", "http://a.example.org/v1/chat", status=201, usage=usage)
        session.wrote("", "b.example.org:443", kind=EntryKind.TUNNEL, status=None, sent_bytes=3100)
        session.wrote("", "", kind=EntryKind.WAKE, key="c", reason="fork")
        ask = Asked(session)
        head, first, second, third = (await ask("%ledger")).splitlines()
        assert head.split()[:4] == ["time", "branch", "what", "outcome"]
        assert "GET http://a.example.org/" in first
        assert second.split()[-6:] == ["201", "120", "+", "30", "0.0123", "USD"]
        assert "connection to b.example.org:443" in third
        assert "3.1 kB" in third
        assert [entry["status"] for entry in ask.record["entries"]] == [200, 201, None]


@in_a_loop
async def test_the_ledger_shows_the_last_fifty_unless_all_are_asked_for() -> None:
    async with on_paper("main") as session:
        for number in range(53):
            session.wrote("GET", f"http://a.example.org/{number}")
        ask = Asked(session)
        told = await ask("%ledger")
        assert "3 older ones" in told
        assert "a.example.org/2 " not in told
        assert "a.example.org/2 " in await ask("%ledger --all")
        assert len(ask.record["entries"]) == ask.record["entries_total"] == 53


@in_a_loop
async def test_what_was_opened_is_in_the_ledger_host_by_host() -> None:
    async with on_paper("main") as session:
        ask = Asked(session)
        await ask("%egress allow api.example.org:8443")
        await ask("%egress deny api.example.org")
        told = (await ask("%ledger")).splitlines()
        assert "allow api.example.org:8443" in told[1]
        assert "deny api.example.org:8443" in told[2]


def test_days_are_told_apart_where_there_are_several() -> None:
    draft = Draft(
        session="s",
        branch="main",
        incarnation="i",
        checkpoint="",
        kind=EntryKind.REQUEST,
        decision=Decision.ALLOWED,
    )
    first = datetime(2026, 11, 29, 12, tzinfo=UTC)
    entries = [Entry(number=n, at=first + timedelta(days=n), draft=draft) for n in range(2)]
    together = as_text(ledger_lines(entries, whole=True, currency="USD"))
    assert re.findall(r"\d\d-\d\d \d\d:\d\d:\d\d", together)
    alone = as_text(ledger_lines(entries[:1], whole=True, currency="USD"))
    assert not re.findall(r"\d\d-\d\d ", alone)


@in_a_loop
async def test_the_ledger_since_a_checkpoint_begins_there() -> None:
    async with on_paper("main") as session:
        session.wrote("GET", "http://a.example.org/before")
        session.save("loaded")
        session.wrote("GET", "http://a.example.org/after")
        told = await Asked(session)("%ledger --since loaded")
        assert "/after" in told
        assert "/before" not in told


@in_a_loop
async def test_what_is_unknown_under_a_key_says_what_to_type() -> None:
    async with on_paper("main") as session:
        session.wrote(
            "POST", "http://a.example.org/orders", key="order-1", state=OutcomeState.UNKNOWN
        )
        told = await Asked(session)("%ledger")
        assert "outcome unknown" in told
        assert "--accept order-1" in told


@in_a_loop
async def test_a_key_whose_request_was_refused_over_there_is_not_used_up() -> None:
    async with on_paper("main") as session:
        session.wrote("POST", "http://a/", key="order-1", state=OutcomeState.REFUSED)
        assert "key order-1, not used up" in await Asked(session)("%ledger")


@pytest.mark.parametrize("kind", [EntryKind.ONCE, EntryKind.REQUEST])
def test_what_is_unknown_can_be_accepted_of_either_kind(kind: EntryKind) -> None:
    @in_a_loop
    async def accepted() -> None:
        async with on_paper("main") as session:
            number = session.wrote("POST", "http://a/", kind=kind, key="k 1", state=None)
            told = await Asked(session)("%ledger --accept 'k 1'")
            assert "k 1 is taken to have taken place" in told
            entry = session.outside.ledger.entry(number)
            assert entry is not None
            assert entry.outcome is not None
            assert entry.outcome.state is OutcomeState.ACCEPTED

    accepted()


@in_a_loop
async def test_a_retry_is_allowed_of_the_kind_that_is_in_doubt() -> None:
    async with on_paper("main") as session:
        session.wrote("", "", kind=EntryKind.ONCE, key="k")
        session.wrote("POST", "http://a/", key="k", state=OutcomeState.UNKNOWN)
        told = await Asked(session)("%ledger --retry k")
        assert "k is done again by whoever asks next" in told
        assert "POST http://a/" in told


@in_a_loop
async def test_a_key_that_is_not_there_is_said_to_be_none() -> None:
    async with on_paper("main") as session:
        with pytest.raises(UnknownNameError, match="there is no key 'k'"):
            await Asked(session)("%ledger --accept k")


@in_a_loop
async def test_costs_are_told_by_branch_with_what_is_left_of_the_limits() -> None:
    limits = OutsideSpec(limits=Limits(tokens=1000, forks=4), currency="EUR")
    async with on_paper("main", "ridge", spec=limits) as session:
        session.made["ridge"].parent = "main"
        usage = Usage(model="m", tokens_in=120, tokens_out=30, micros=12_300)
        session.wrote("POST", "http://a.example.org/v1/chat", branch="ridge", usage=usage)
        session.outside.spending.count_time("main", 312)
        ask = Asked(session)
        lines = (await ask("%costs")).splitlines()
        main, ridge = lines[1].split(), lines[2]
        assert main[:5] == ["main", "live", "5", "min", "12"]
        assert main[-1] == "1"
        assert "61 MB" in ridge
        assert "0.0123 EUR" in ridge
        assert lines[3].startswith("together")
        assert any("150 of 1000 tokens · 850 left" in line for line in lines)
        assert any("1 of 4 forks · 3 left" in line for line in lines)
        (of_main, of_ridge) = ask.record["costs"]
        assert (of_main["forks"], of_ridge["tokens_in"], of_ridge["micros"]) == (1, 120, 12_300)


@in_a_loop
async def test_costs_say_what_the_checkpoints_of_each_branch_take_on_disk() -> None:
    async with on_paper("main", "ridge") as session:
        for branch, size in (("main", 9_000_000), ("main", 11_000_000), ("ridge", 5_000_000)):
            cost = CheckpointCost(memory_bytes=size, device_bytes=10_000, disk_bytes=size)
            session.save("saved", branch, cost=cost)
        fresh = replace(session.points[0], session=None, kind=CheckpointKind.BASE)
        others = replace(session.points[0], session=SessionId("another"))
        session.points += [fresh, others]
        ask = Asked(session)
        _head, main, ridge, together, *_ = (await ask("%costs")).splitlines()
        assert ("40 MB" in main, "10 MB" in ridge, "50 MB" in together) == (True, True, True)
        disk = {it["branch"]: it["disk_bytes"] for it in ask.record["costs"]}
        assert disk == {"main": 40_020_000, "ridge": 10_010_000}


@in_a_loop
async def test_a_branch_that_was_dropped_keeps_a_row_with_what_it_cost() -> None:
    async with on_paper("main", "tried", spec=OutsideSpec(currency="EUR")) as session:
        session.save("kept", "tried", cost=CheckpointCost(disk_bytes=5_000_000))
        usage = Usage(model="m", tokens_in=120, tokens_out=3, micros=12_300)
        session.wrote("POST", "http://a.example.org/v1/chat", branch="tried", usage=usage)
        session.outside.spending.count_time("tried", 75)
        session.made["tried"].parent = "main"
        session.made["tried"].state = BranchState.DROPPED
        ask = Asked(session)
        (line,) = (it for it in (await ask("%costs")).splitlines() if it.startswith("tried"))
        assert line.split()[:5] == ["tried", "dropped", "1", "min", "15"]
        assert {"5.0 MB", "0.0123 EUR"} <= set(re.split(" {2,}", line))
        (_, told) = ask.record["costs"]
        assert (told["branch"], told["state"], told["lived_s"]) == ("tried", "dropped", 75)
        assert (told["disk_bytes"], told["micros"]) == (5_000_000, 12_300)


@in_a_loop
async def test_costs_of_branches_that_are_no_more_on_record_are_told_together() -> None:
    async with on_paper("main", "gone") as session:
        session.wrote("GET", "http://a.example.org/", branch="gone")
        del session.made["gone"]
        ask = Asked(session)
        told = await ask("%costs")
        assert "1 no more" in told
        assert ask.record["gone"]["requests"] == 1


@in_a_loop
async def test_a_limit_that_is_raised_holds_at_once() -> None:
    async with on_paper("main", spec=OutsideSpec(limits=Limits(tokens=10))) as session:
        assert "0 of 400000 tokens" in await Asked(session)("%costs --raise tokens=400000")
        assert session.outside.spending.limits.tokens == 400_000


async def _serve(end: FakeEnd) -> None:
    if end.purpose != ("connect", "8000"):
        raise GuestRefusedError("nothing listens")


@in_a_loop
async def test_a_forward_is_shown_as_a_link() -> None:
    async with on_paper("main") as session:
        session.current.streams.on_open = _serve
        ask = Asked(session)
        told = await ask("%forward 8000")
        (forward,) = ask.record["forwards"]
        assert forward["url"] in told
        assert f'<a href="{forward["url"]}"' in ask.html
        assert "which the notebook continues as" in told
        assert "nothing listens" not in told
        assert forward["url"] in await ask("%forward")
        assert "8000 is forwarded no more" in await ask("%forward 8000 --stop")
        assert "no port is forwarded" in await ask("%forward")


@in_a_loop
async def test_a_forward_to_which_nothing_listens_says_so() -> None:
    async with on_paper("main") as session:
        session.current.streams.on_open = _serve
        assert "nothing listens there yet" in await Asked(session)("%forward 9999")


@in_a_loop
async def test_a_forward_of_a_branch_that_is_not_there_is_refused() -> None:
    async with on_paper("main") as session:
        with pytest.raises(UnknownNameError, match="no branch 'ridge'"):
            await Asked(session)("%forward 8000 --branch ridge")


@in_a_loop
async def test_code_in_a_machine_forwards_its_own_ports_to_a_free_one() -> None:
    async with on_paper("main", "other") as session:
        ask = Asked(session)
        await ask("%forward 8000", inside="other")
        (forward,) = ask.record["forwards"]
        assert forward["branch"] == "other"
        await ask("%forward 8000 --stop", inside="other")
        for line in ("%forward 8000 --to 9000", "%forward 8000 --branch main"):
            with pytest.raises(UsageError, match="of that machine alone, to a free port"):
                await ask(line, inside="other")

"""What the magics of the outside world leave out, and what they add for who is new to them."""

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.kernel.paper_session import Asked, on_paper

from branchpoint_kernel.operations import with_hint
from branchpoint_vmruntime.errors import UnknownNameError
from branchpoint_vmruntime.outside.facts import Limits, OutsideSpec


@in_a_loop
async def test_what_is_refused_again_and_again_is_shown_once() -> None:
    async with on_paper("main") as session:
        for host in ("a", "b", "a"):
            session.refused(f"http://{host}.example.org/", "no")
        told = await Asked(session)("%egress")
        assert told.count("a.example.org") == 1
        assert told.index("b.example.org") < told.index("a.example.org")


@pytest.mark.parametrize(
    ("allowed", "bound"),
    [
        ("api.example.org", "api.example.org"),
        ("*.example.org", "api.example.org:443"),
        ("[2001:db8::1]:8080", "[2001:db8::1]:8080"),
    ],
)
def test_a_secret_for_a_host_that_may_be_reached_needs_no_more(allowed: str, bound: str) -> None:
    @in_a_loop
    async def told() -> None:
        async with on_paper("main") as session:
            ask = Asked(session)
            await ask(f"%egress allow {allowed}")
            added = await ask(f"%secrets add KEY --host {bound} --from env:HOME")
            assert "may not be reached yet" not in added

    told()


@in_a_loop
async def test_a_secret_for_a_host_that_may_not_be_reached_says_how_to_allow_it() -> None:
    async with on_paper("main") as session:
        ask = Asked(session)
        await ask("%egress allow api.example.org")
        added = await ask("%secrets add KEY --host api.example.org:8443 --from env:HOME")
        assert "api.example.org:8443 may not be reached yet" in added
        assert "%egress allow api.example.org:8443" in added


@in_a_loop
async def test_the_ledger_has_no_columns_with_nothing_in_them() -> None:
    async with on_paper("main") as session:
        session.refused("http://a.example.org/", "no")
        head, refused = (await Asked(session)("%ledger")).splitlines()
        assert head.split() == ["time", "branch", "what", "outcome"]
        assert refused.endswith("refused  no")


@in_a_loop
async def test_a_key_that_was_never_used_is_told_together_with_those_that_were() -> None:
    async with on_paper("main") as session:
        session.wrote("POST", "http://a.example.org/orders", key="order-1")
        with pytest.raises(UnknownNameError, match="no key 'order-2'; there is: order-1"):
            await Asked(session)("%ledger --accept order-2")


@pytest.mark.parametrize(
    ("line", "listing"),
    [
        ("%egress deny api.example.org", "%egress"),
        ("%secrets remove KEY", "%secrets"),
        ("%ledger --retry order-1", "%ledger"),
    ],
)
def test_what_is_not_there_says_what_lists_those_that_are(line: str, listing: str) -> None:
    @in_a_loop
    async def told() -> None:
        async with on_paper("main") as session:
            with pytest.raises(UnknownNameError) as caught:
                await Asked(session)(line)
            assert with_hint(caught.value).hint == f"type {listing} to see them"

    told()


@in_a_loop
async def test_time_that_is_limited_is_told_as_that_which_was_lived() -> None:
    async with on_paper("main", spec=OutsideSpec(limits=Limits(wall_s=3600))) as session:
        session.outside.spending.count_time("main", 121)
        told = await Asked(session)("%costs")
        assert "2 min 1 s of 1 h 0 min for a branch · 57 min 59 s left" in told


@in_a_loop
async def test_the_ledger_has_the_conditions_under_which_a_host_was_allowed() -> None:
    async with on_paper("main") as session:
        ask = Asked(session)
        await ask("%egress allow models.internal:8080 --private --method GET,HEAD")
        assert "allow models.internal:8080, GET HEAD, private" in await ask("%ledger")

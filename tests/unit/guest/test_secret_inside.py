"""`branchpoint.secret`: a placeholder, asked for by name."""

import pytest
from tests.support.fake_calls import FakeCalls

import branchpoint
from branchpoint import BranchpointError


def test_a_secret_is_asked_for_by_name_and_its_placeholder_returned(calls: FakeCalls) -> None:
    calls.done({"placeholder": "branchpoint-KEY-x"})
    assert branchpoint.secret("KEY") == "branchpoint-KEY-x"
    assert calls.requests == [{"do": "secret", "name": "KEY"}]


def test_a_branch_that_woke_meanwhile_asks_for_its_own(calls: FakeCalls) -> None:
    calls.woken("fork", 1)
    calls.done({"placeholder": "branchpoint-KEY-y"})
    assert branchpoint.secret("KEY") == "branchpoint-KEY-y"


def test_a_name_that_is_no_secrets_is_an_error_in_words(calls: FakeCalls) -> None:
    calls.refused("there is no secret 'KEI'; there is: KEY", "%secrets add KEI --host HOST")
    with pytest.raises(BranchpointError, match="there is: KEY") as refused:
        branchpoint.secret("KEI")
    assert refused.value.hint

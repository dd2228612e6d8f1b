"""Random operations on a real session, with random kills: model and store agree after each.

Two hundred, the same each time, each followed by a look at all there is: a third of a second each.
`BRANCHPOINT_OPERATIONS=N` runs so many, `BRANCHPOINT_SEED=N` others; `pytest -s` shows them.
"""

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.support.random_session import EVERY_KIND, RandomSession

from branchpoint_vmruntime.home import Home

# Of so many operations, each kind is some.
ENOUGH = 200
OPERATIONS = int(os.environ.get("BRANCHPOINT_OPERATIONS", str(ENOUGH)))
SEED = int(os.environ.get("BRANCHPOINT_SEED", "5"))

pytestmark = pytest.mark.vm


@pytest.mark.timeout(600 + 12 * OPERATIONS)
def test_whatever_is_done_to_a_session_and_killed_in_it_the_store_is_as_it_should_be(
    home: Home,
) -> None:
    done: Counter[str] = Counter()

    @seed(SEED)
    class Session(RandomSession):
        def __init__(self) -> None:
            super().__init__(home, key=f"random {SEED}", done=done)

    run_state_machine_as_test(
        Session,
        settings=settings(
            max_examples=1,
            # One to open it.
            stateful_step_count=OPERATIONS + 1,
            phases=[Phase.generate],
            database=None,
            deadline=None,
            suppress_health_check=[
                HealthCheck.too_slow,
                HealthCheck.filter_too_much,
                HealthCheck.data_too_large,
                HealthCheck.large_base_example,
            ],
        ),
    )
    # Hypothesis may end a run early, and say nothing of it.
    assert done.total() == OPERATIONS
    assert OPERATIONS < ENOUGH or not set(EVERY_KIND) - set(done), done

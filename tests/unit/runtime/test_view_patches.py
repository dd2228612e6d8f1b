"""What is another in a view than in that before, and that the next one can be made of it."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from branchpoint_vmruntime.view_patches import Patch, patch_of

ITEMS = st.fixed_dictionaries({"id": st.integers(0, 5), "note": st.sampled_from(["", "a"])})
VIEWS = st.fixed_dictionaries(
    {"version": st.integers(), "current": st.none() | st.text(), "checkpoints": st.lists(ITEMS)}
)


def patched(view: Mapping[str, Any], patch: Patch) -> dict[str, Any]:
    """The next view, as pages make it."""
    after = dict(view)
    for name, change in patch.items():
        if "value" in change:
            after[name] = change["value"]
        else:
            was, pieces = view.get(name, []), change["pieces"]
            parts = [[it["item"]] if "item" in it else was[it[0] : it[1]] for it in pieces]
            after[name] = [item for part in parts for item in part]
    return after


@given(before=VIEWS, after=VIEWS)
def test_the_next_view_can_be_made_of_the_one_before(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    assert patched(before, patch_of(before, after)) == after
    assert patched({}, patch_of({}, after)) == after


@given(view=VIEWS)
def test_there_is_nothing_to_tell_of_what_is_the_same(view: Mapping[str, Any]) -> None:
    assert patch_of(view, dict(view)) == {}


def test_of_long_lists_only_what_is_new_is_told() -> None:
    long = [{"id": number, "note": ""} for number in range(1000)]
    noted = {"id": 7, "note": "here"}
    after = [*long[:7], noted, *long[8:], {"id": 1000}]
    assert patch_of({"checkpoints": long}, {"checkpoints": after}) == {
        "checkpoints": {"pieces": [[0, 7], {"item": noted}, [8, 1000], {"item": {"id": 1000}}]}
    }
    newest_first = [{"id": "new"}, *long[:-1]]
    assert patch_of({"operations": long}, {"operations": newest_first}) == {
        "operations": {"pieces": [{"item": {"id": "new"}}, [0, 999]]}
    }

"""Cells of a kernel that is not Python, through the whole proxy."""

import pytest
from tests.support.front_end import in_a_loop, open_notebook

from branchpoint_kernel.kernel_facts import KernelFacts


@pytest.fixture(autouse=True)
def another_language(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel says it is Bash, though for these tests it need only say so."""
    monkeypatch.setattr(KernelFacts, "language", "bash")


@in_a_loop
async def test_a_cell_of_nothing_but_magics_is_done_by_the_host() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run("%checkpoint a\n\n%branches")
        assert answer.status == "ok"
        assert answer.record["op"] == "branches"
        assert [point.label for point in notebook.session.checkpoints()] == ["base", "a"]


@in_a_loop
async def test_a_cell_with_anything_else_in_it_is_the_guests_from_first_to_last_line() -> None:
    async with open_notebook() as notebook:
        await notebook.run("print('first')\n%checkpoint a")
        await notebook.run("print('first')\n%fork 0")
        assert [point.label for point in notebook.session.checkpoints()] == ["base"]


@in_a_loop
async def test_a_cell_for_other_branches_may_hold_any_code() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names other")
        answer = await notebook.run("%%branch other\nprint(6 * 7)")
        assert "42" in answer.text

"""Text that is no UTF-8, as Python has of odd file names, through the whole proxy."""

import pytest
from tests.support.front_end import in_a_loop, open_notebook

ODD = "'bad file: \\udcff'"


@in_a_loop
async def test_a_cell_whose_error_is_no_utf8_ends_and_the_next_one_runs() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run(f"raise ValueError({ODD})")
        assert answer.status == "error"
        assert "bad file: " in answer.reply["content"]["evalue"]
        assert (await notebook.run("1")).text == "1\n"


@in_a_loop
async def test_code_beside_magics_whose_error_is_no_utf8_ends() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run(f"%branches\nraise ValueError({ODD})")
        assert answer.status == "error"
        assert "bad file: " in answer.text


@pytest.mark.parametrize(
    ("code", "status"), [(f"print({ODD})", "ok"), (f"raise ValueError({ODD})", "error")]
)
@in_a_loop
async def test_what_is_no_utf8_in_a_branch_is_shown(code: str, status: str) -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names a")
        answer = await notebook.run(f"%%branch a\n{code}")
        assert answer.status == status
        assert "bad file: " in answer.text

"""What branches print beside each other, through the whole proxy: shown, bounded, survived."""

from tests.support.front_end import in_a_loop, open_notebook


@in_a_loop
async def test_one_long_line_in_branches_is_shown_and_holds_nothing_up() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names a")
        answer = await notebook.run("%%branch a\nprint('x' * 1_000_000)")
        assert answer.status == "ok"
        assert "x" * 50_000 in answer.text

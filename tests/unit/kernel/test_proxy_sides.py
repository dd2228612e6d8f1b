"""What branches print beside each other, through the whole proxy: shown, bounded, survived."""

from tests.support.front_end import Message, in_a_loop, open_notebook


def shown_of(messages: list[Message], parent: str) -> str:
    """What was displayed last under a request."""
    kinds = ("display_data", "update_display_data")
    mine = [m for m in messages if m["parent_header"].get("msg_id") == parent]
    texts = [m["content"]["data"]["text/plain"] for m in mine if m["msg_type"] in kinds]
    return texts[-1] if texts else ""


@in_a_loop
async def test_one_long_line_in_branches_is_shown_and_holds_nothing_up() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names a")
        answer = await notebook.run("%%branch a\nprint('x' * 1_000_000)")
        assert answer.status == "ok"
        assert "x" * 50_000 in answer.text


@in_a_loop
async def test_a_branch_that_prints_without_end_is_stopped_and_shows_what_it_ended_with() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names a")
        sent = notebook.send("%%branch a\nwhile True: print('x' * 100_000)")
        while "left out" not in shown_of(notebook.seen, sent):
            await notebook.hear()
        notebook.control("interrupt_request")
        answer = await notebook.answer(sent)
        assert "left out" in answer.text
        assert "KeyboardInterrupt" in answer.text

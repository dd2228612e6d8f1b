"""Completion and inspection through the whole proxy."""

from tests.support.front_end import Notebook, in_a_loop, open_notebook


async def complete(notebook: Notebook, code: str) -> list[str]:
    reply = await notebook.reply(notebook.client.complete(code, len(code)))
    content = reply["content"]
    return [code[: content["cursor_start"]] + match for match in content["matches"]]


@in_a_loop
async def test_completion_offers_labels_names_and_flags_where_they_belong() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint loaded")
        await notebook.run("%fork 2 --names ridge,forest")
        assert await complete(notebook, "%rollback lo") == ["%rollback loaded"]
        assert await complete(notebook, "x = 1\n%fork 2 --from lo") == [
            "x = 1\n%fork 2 --from loaded"
        ]
        assert await complete(notebook, "%rollback --") == [
            "%rollback --no-safety",
            "%rollback --keep-queue",
            "%rollback --preview",
            "%rollback --help",
        ]
        assert await complete(notebook, "%diff ridge lo") == ["%diff ridge loaded"]
        assert await complete(notebook, "%diff loaded fores") == ["%diff loaded forest"]
        assert await complete(notebook, "%autocheckpoint o") == [
            "%autocheckpoint on",
            "%autocheckpoint off",
        ]
        assert await complete(notebook, "%switch f") == ["%switch forest"]
        assert await complete(notebook, "%%branch ridge,fo") == ["%%branch ridge,forest"]
        assert await complete(notebook, "%%branch a") == ["%%branch all"]


@in_a_loop
async def test_completion_elsewhere_is_the_guests_and_knows_our_magics() -> None:
    async with open_notebook() as notebook:
        await notebook.run("some_long_name = 1")
        assert await complete(notebook, "some_lo") == ["some_long_name"]
        assert "%checkpoint" in await complete(notebook, "%checkp")


@in_a_loop
async def test_inspection_of_a_line_of_ours_explains_the_magic() -> None:
    async with open_notebook() as notebook:
        reply = await notebook.reply(notebook.client.inspect("x\n%fork 3", 6))
        assert reply["content"]["found"]
        assert "%fork N" in reply["content"]["data"]["text/plain"]
        reply = await notebook.reply(notebook.client.inspect("len", 3))
        assert "Return the number of items" in reply["content"]["data"]["text/plain"]

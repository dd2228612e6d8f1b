"""What the pages that have the lineage view are told of a change: what is another in it."""

from typing import Any

from tests.support.front_end import in_a_loop, open_notebook
from tests.support.lineage_page import LineagePage


def told(page: LineagePage, message: dict[str, Any]) -> dict[str, Any]:
    """What a message says to a page that has the widget, by messages of its own."""
    content = message["content"]
    if message["msg_type"] != "comm_msg" or content["comm_id"] != page.model:
        return {}
    return content["data"].get("content", {})


@in_a_loop
async def test_a_page_that_takes_patches_is_told_what_is_another_and_finds_all_of_it() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        before = await page.view()
        notebook.seen.clear()
        page.say({"method": "custom", "content": {"op": "look", "patches": True}})
        await notebook.run("%checkpoint one")
        message = await page.next(lambda it: "checkpoints" in told(page, it).get("patch", {}))
        patch = told(page, message)["patch"]
        kept, new = patch["checkpoints"]["pieces"]
        assert kept == [0, len(before["checkpoints"])]
        assert new["item"]["facts"]["label"] == "one"
        assert not any("view" in page.state_in(it) for it in notebook.seen)
        # Whoever is loaded now finds all of it.
        view = await page.view()
        assert page.labels(view)[-1] == "one"
        assert view["version"] >= patch["version"]["value"]


@in_a_loop
async def test_a_page_that_has_missed_one_is_told_all_of_it() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        page.say({"method": "custom", "content": {"op": "look", "patches": True}})
        await notebook.run("%checkpoint one")
        await page.next(lambda it: "checkpoints" in told(page, it).get("patch", {}))
        page.say({"method": "custom", "content": {"op": "whole"}})
        assert page.labels(await page.until(lambda view: len(view["checkpoints"]) > 1))[-1] == "one"

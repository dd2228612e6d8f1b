"""The lineage view through the whole proxy: its comms, what pages are told, what they ask for."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.carrying import hold, saving_by_itself
from tests.support.front_end import Message, in_a_loop, open_notebook
from tests.support.lineage_page import WIDGET_VIEW, LineagePage, comm_openings, data_of

from branchpoint_vmruntime.errors import UsageError


@in_a_loop
async def test_however_often_it_is_run_there_are_the_same_two_comms() -> None:
    async with open_notebook() as notebook:
        models: set[str] = set()
        for _ in range(5):
            shown = data_of(await notebook.run("%lineage", allow_stdin=True))
            models.add(shown[0][WIDGET_VIEW]["model_id"])
        assert len(models) == 1
        assert len(comm_openings(notebook.seen)) == 2
        assert len(await LineagePage(notebook).comms()) == 2


@in_a_loop
async def test_pages_are_shown_what_changes_and_that_only_once() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        await notebook.run("%checkpoint one")
        # The last there is to tell is that the cell is over.
        changes = notebook.session.changes
        await page.until(lambda view: view["version"] == changes.version and not busy(view))
        notebook.seen.clear()
        await notebook.listen(1.5)
        assert [m for m in notebook.seen if "view" in page.state_in(m)] == []


@in_a_loop
async def test_figures_that_move_by_themselves_are_told_without_the_view() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        state = page.state_in(await page.next(lambda it: bool(page.state_in(it).get("figures"))))
        assert state.keys() == {"figures"}
        (figures,) = state["figures"].values()
        assert (figures["own_bytes"], figures["shared_bytes"]) == (9_000_000, 412_000_000)


@in_a_loop
async def test_after_many_rollbacks_it_is_the_same_widget_and_shows_the_truth() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        before = await page.comms()
        await notebook.run("%checkpoint one")
        for _ in range(3):
            await notebook.run("%rollback one --no-safety")
        assert await page.comms() == before
        await notebook.run("%checkpoint two")
        states = (await page.ask_states())["states"]
        view = states[page.model]["state"]["view"]
        assert page.labels(view) == ["base", "one", "two"]
        assert view["branches"][0]["facts"]["head_label"] == "two"
        closed = [m for m in notebook.seen if m["msg_type"] == "comm_close"]
        assert closed == []


@in_a_loop
async def test_a_page_that_is_loaded_anew_finds_our_widget_beside_those_inside() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        await notebook.run(
            "import ipywidgets\n"
            "image = ipywidgets.Image(value=b'GIF89a')\n"
            "slider = ipywidgets.IntSlider(value=3)"
        )
        answer = await page.ask_states()
        assert page.model in answer["states"]
        names = {it["model_name"] for it in answer["states"].values()}
        assert {"AnyModel", "LayoutModel", "ImageModel", "IntSliderModel"} <= names
        [path] = answer["buffer_paths"]
        assert answer["states"][path[0]]["model_name"] == "ImageModel"
        assert path[1:] == ["state", "value"]
        assert page.buffers == [b"GIF89a"]


@in_a_loop
async def test_while_a_cell_runs_a_page_is_told_of_the_widgets_inside_as_they_were_last() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        await notebook.run("import ipywidgets\nslider = ipywidgets.IntSlider(value=3)")
        await notebook.run("slider.value = 7")
        notebook.seen.clear()
        running = await hold(notebook)
        answer = await page.ask_states()
        values = [it["state"].get("value") for it in answer["states"].values()]
        assert 7 in values
        assert page.model in answer["states"]
        assert page.model in await page.comms()
        running.end()
        assert (await notebook.answer(running.id)).status == "ok"


@in_a_loop
async def test_a_page_that_asks_each_comm_for_its_state_is_answered() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        layout = next(it for it in await page.comms() if it != page.model)
        for comm_id in (page.model, layout):
            sent = page.say({"method": "request_state"}, comm_id)
            [told] = await page.told(sent)
            assert told["content"]["comm_id"] == comm_id
            state = told["content"]["data"]["state"]
            assert state["_model_module"] in ("anywidget", "@jupyter-widgets/base")


@in_a_loop
async def test_comms_of_the_kernel_inside_are_listed_beside_ours() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        await notebook.run("import comm; comm.create_comm(target_name='t', comm_id='c')")
        assert {"c", page.model} <= (await page.comms(target=None)).keys()
        assert "c" not in await page.comms()


@in_a_loop
async def test_what_is_asked_for_is_done_and_answered_with_its_number() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        asked: list[Mapping[str, Any]] = []

        async def fork(fields: Mapping[str, Any]) -> Mapping[str, Any]:
            asked.append(fields)
            return {"total_ms": 5}

        notebook.session.answers["fork"] = fork
        done = await page.act("fork", count=2)
        assert done == {"id": page.last, "done": {"total_ms": 5}}
        assert asked == [{"count": 2, "asked": "widget"}]


@in_a_loop
async def test_what_a_session_refuses_is_refused_in_its_words() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)

        async def drop(_fields: Mapping[str, Any]) -> Mapping[str, Any]:
            raise UsageError("'main' is the current branch", hint="switch first")

        notebook.session.answers["drop"] = drop
        refused = (await page.act("drop", names=["main"]))["refused"]
        assert refused == {"message": "'main' is the current branch", "hint": "switch first"}


@pytest.mark.parametrize("op", ["run", "end", "forward", None, ["fork"]])
def test_what_no_page_may_ask_for_is_refused(op: Any) -> None:
    @in_a_loop
    async def run() -> None:
        async with open_notebook() as notebook:
            page = await LineagePage.open(notebook)

            async def never(_fields: Mapping[str, Any]) -> Mapping[str, Any]:
                raise AssertionError

            notebook.session.answers.update(dict.fromkeys(("run", "end", "forward"), never))
            refused = (await page.act(op))["refused"]
            assert refused["message"] == f"{op!r} cannot be asked for here"

    run()


@in_a_loop
async def test_a_mistake_of_ours_is_told_and_the_widget_goes_on() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)

        async def pin(_fields: Mapping[str, Any]) -> Mapping[str, Any]:
            raise RuntimeError("ours")

        notebook.session.answers["pin"] = pin
        refused = (await page.act("pin"))["refused"]
        assert refused["message"] == "the kernel made a mistake: RuntimeError: ours"
        assert "refused" in await page.act("pin")


@in_a_loop
async def test_a_preview_says_what_the_magic_says_and_changes_nothing() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        await notebook.run("%checkpoint one")
        await notebook.run("x = 2")
        told = (await page.act("preview", target="one"))["done"]
        assert set(told) == {"text", "html", "record"}
        assert "%rollback one would do this; nothing has been done" in told["text"]
        assert told["record"]["op"] == "preview"
        assert (await notebook.run("x")).text == "2\n"


@in_a_loop
async def test_a_name_nobody_knows_is_refused_with_what_was_probably_meant() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        await notebook.run("%checkpoint loaded")
        refused = (await page.act("preview", target="loadd"))["refused"]
        assert "did you mean 'loaded'?" in refused["hint"]


@in_a_loop
async def test_a_move_asked_for_in_the_view_is_told_the_next_cell() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        await notebook.run("%fork 1 --names other")

        async def switch(fields: Mapping[str, Any]) -> Mapping[str, Any]:
            async with notebook.session.turn():
                await notebook.session.switch(fields["name"])
            return {}

        notebook.session.answers["switch"] = switch
        assert "done" in await page.act("switch", name="other")
        told = (await notebook.run("1")).text
        assert "this notebook continues as other   asked for in the lineage view at" in told


@in_a_loop
async def test_a_message_that_makes_no_sense_is_dropped_and_gets_its_idle() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        odd: list[object] = [{}, {"method": "custom"}, {"method": "update", "state": 1}, [], None]
        for data in odd:
            await page.told(page.say(data))
        assert "refused" in await page.act("nothing")


@in_a_loop
async def test_a_page_cannot_change_what_others_are_shown() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        await page.told(page.say({"method": "update", "state": {"view": {}, "_esm": "bad"}}))
        state = (await page.ask_states())["states"][page.model]["state"]
        assert state["view"]["session"] == "s-fake"
        assert state["_esm"] != "bad"


@in_a_loop
async def test_a_page_is_told_the_kernel_is_busy_still_when_it_is() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        running = await hold(notebook)
        notebook.seen.clear()
        await page.told(page.say({"method": "custom", "content": {"op": "look"}}))
        while len(states := states_in(notebook.seen)) < 3:
            await notebook.hear()
        assert states == ["busy", "idle", "busy"]
        running.end()
        await notebook.answer(running.id)


@in_a_loop
async def test_a_page_is_not_told_the_kernel_is_busy_while_it_saves_by_itself() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        await notebook.run("%autocheckpoint on")
        async with saving_by_itself(notebook):
            notebook.seen.clear()
            for _ in range(2):
                await page.told(page.say({"method": "custom", "content": {"op": "look"}}))
            assert states_in(notebook.seen) == ["busy", "idle"] * 2


@in_a_loop
async def test_nothing_is_said_once_no_page_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchpoint_kernel.lineage_host.LOOKED_AT_S", 0.1)
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        await notebook.listen(1.5)
        notebook.seen.clear()
        await notebook.run("%checkpoint one")
        await notebook.listen(0.5)
        assert [m for m in notebook.seen if m["msg_type"].startswith("comm_")] == []
        page.say({"method": "custom", "content": {"op": "look"}})
        await page.until(lambda view: "one" in page.labels(view))


@in_a_loop
async def test_what_pages_say_to_comms_inside_reaches_them() -> None:
    async with open_notebook() as notebook:
        await LineagePage.open(notebook)
        await notebook.run(
            "import comm\nheard = []\n"
            "mine = comm.create_comm(target_name='t', comm_id='c')\n"
            "mine.on_msg(lambda message: heard.append(message['content']['data']))"
        )
        LineagePage(notebook).say({"n": 1}, "c")
        assert (await notebook.run("heard")).text == "[{'n': 1}]\n"


def busy(view: Message) -> bool:
    """Whether a cell runs in any branch."""
    return any(it["facts"]["busy"] for it in view["branches"])


def states_in(messages: list[Message]) -> list[str]:
    return [m["content"]["execution_state"] for m in messages if m["msg_type"] == "status"]


@in_a_loop
async def test_while_it_was_never_shown_comms_are_the_kernels_alone() -> None:
    async with open_notebook() as notebook:
        page = LineagePage(notebook)
        assert await page.comms() == {}
        notebook.seen.clear()
        await page.open_control()
        # A kernel without ipywidgets closes what it does not know.
        await page.hear("comm_close")


@in_a_loop
async def test_a_page_that_had_it_before_a_restart_gets_it_back_without_a_cell() -> None:
    async with open_notebook() as notebook:
        page = LineagePage(notebook, "branchpoint-lineage-s-fake")
        await page.told(page.ask_back())
        opened = [it["comm_id"] for it in comm_openings(notebook.seen)]
        assert opened == [f"{page.model}-layout", page.model]
        assert page.labels(await page.view()) == ["base"]


@in_a_loop
async def test_a_second_page_that_asks_for_it_is_told_of_the_same_comms_again() -> None:
    async with open_notebook() as notebook:
        page = await LineagePage.open(notebook)
        before = await page.comms()
        notebook.seen.clear()
        await page.told(page.ask_back())
        opened = comm_openings(notebook.seen)
        assert {it["comm_id"] for it in opened} == set(before) == set(await page.comms())
        assert opened[-1]["data"]["state"]["view"]["session"] == "s-fake"

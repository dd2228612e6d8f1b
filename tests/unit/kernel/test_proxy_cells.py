"""Cells through the whole proxy: a stock client, the relay on both sides, a stock ipykernel."""

from tests.support.carrying import hold
from tests.support.front_end import in_a_loop, open_notebook


@in_a_loop
async def test_a_plain_cell_answers_as_ipykernel_does() -> None:
    async with open_notebook() as notebook:
        # Written at once: on a slow host a line and its end come apart.
        answer = await notebook.run("print('a\\n', end='')\n40 + 2")
        assert answer.types == ["busy", "execute_input", "stream", "execute_result", "idle"]
        assert answer.text == "a\n42\n"
        assert answer.reply["content"]["execution_count"] == 1


@in_a_loop
async def test_everything_leaves_under_one_session_with_ids_used_once() -> None:
    async with open_notebook() as notebook:
        for code in ("x = 1", "%checkpoint a", "x", "%rollback a", "x", "%fork 1 --names b"):
            await notebook.run(code)
        await notebook.run("%%branch b\nx")
        assert len({message["header"]["session"] for message in notebook.seen}) == 1
        ids = [message["header"]["msg_id"] for message in notebook.seen]
        assert len(set(ids)) == len(ids)


@in_a_loop
async def test_parents_come_back_as_they_were_sent() -> None:
    async with open_notebook() as notebook:
        request = notebook.client.session.msg("execute_request", {"code": "1"})
        request["header"]["mark"] = "mine"
        notebook.client.shell_channel.send(request)
        answer = await notebook.answer(request["header"]["msg_id"])
        assert all(message["parent_header"]["mark"] == "mine" for message in answer.outputs)


@in_a_loop
async def test_a_cell_of_one_magic_has_one_busy_one_input_and_one_idle_and_does_not_count() -> None:
    async with open_notebook() as notebook:
        await notebook.run("x = 1")
        answer = await notebook.run("\n%checkpoint loaded  # the data\n\n")
        assert answer.types == ["busy", "execute_input", "display_data", "idle"]
        assert answer.reply["content"]["execution_count"] == 1
        assert answer.text.startswith("● loaded")
        assert (await notebook.run("x")).reply["content"]["execution_count"] == 2


@in_a_loop
async def test_a_magic_before_any_code_has_a_number_for_pages_that_take_0_for_none_yet() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run("%checkpoint first")
        assert answer.reply["content"]["execution_count"] == 1
        assert (await notebook.run("x = 1")).reply["content"]["execution_count"] == 1


@in_a_loop
async def test_magics_mixed_with_code_run_in_order_and_the_cell_counts_once() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run("x = 1\n%checkpoint one\nx = 2\n%rollback one\nprint(x)\nx + 1")
        assert answer.types.count("busy") == answer.types.count("idle") == 1
        assert answer.types.count("execute_input") == 1
        assert answer.text.endswith("1\n2\n")
        assert answer.reply["content"]["execution_count"] == 1


@in_a_loop
async def test_an_error_in_a_mixed_cell_stops_the_rest_of_it() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run("1/0\n%checkpoint never\nprint('never')")
        assert answer.status == "error"
        assert answer.types.count("error") == 1
        assert len(notebook.session.checkpoints()) == 1


@in_a_loop
async def test_a_command_that_cannot_be_read_keeps_the_whole_cell_from_running() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run("print('code' + ' ran')\n%fork 0")
        assert answer.status == "error"
        assert "code ran" not in answer.text


@in_a_loop
async def test_a_magic_waits_for_the_cells_sent_before_it() -> None:
    async with open_notebook() as notebook:
        first = notebook.send("import time; time.sleep(.3); x = 1")
        second = notebook.send("x = 2")
        third = notebook.send("%checkpoint after")
        fourth = notebook.send("x = 4")
        for sent in (first, second, third, fourth):
            assert (await notebook.answer(sent)).status == "ok"
        await notebook.run("%rollback after")
        assert (await notebook.run("x")).text == "2\n"


@in_a_loop
async def test_an_error_aborts_the_magics_and_cells_queued_behind_it() -> None:
    async with open_notebook() as notebook:
        first = await hold(notebook, then="1/0")
        sent = [notebook.send(code) for code in ("2", "%checkpoint a", "print(3)")]
        await notebook.taken_in()
        first.end()
        answers = [await notebook.answer(each) for each in (first.id, *sent)]
        statuses = [answer.status for answer in answers]
        assert statuses == ["error", "aborted", "aborted", "aborted"]
        assert answers[2].types == ["busy", "idle"]
        assert (await notebook.run("4")).status == "ok"


@in_a_loop
async def test_an_error_that_is_not_to_stop_lets_the_queue_go_on() -> None:
    async with open_notebook() as notebook:
        first = await hold(notebook, then="1/0", stop_on_error=False)
        behind = notebook.send("%checkpoint a")
        await notebook.taken_in()
        first.end()
        assert (await notebook.answer(behind)).status == "ok"


@in_a_loop
async def test_an_error_in_a_magic_aborts_what_is_queued_behind_it() -> None:
    async with open_notebook() as notebook:
        first = await hold(notebook)
        wrong, behind = notebook.send("%rollback nowhere"), notebook.send("print(1)")
        await notebook.taken_in()
        first.end()
        answer = await notebook.answer(wrong)
        assert answer.status == "error"
        assert "there is no checkpoint 'nowhere'; there is: base" in answer.text
        assert (await notebook.answer(behind)).status == "aborted"


@in_a_loop
async def test_a_rollback_drops_the_cells_queued_behind_it_and_says_so() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%checkpoint a")
        first = await hold(notebook)
        back, *behind = (notebook.send(code) for code in ("%rollback a", "1", "%branches"))
        await notebook.taken_in()
        first.end()
        answer = await notebook.answer(back)
        assert "2 queued cells were dropped" in answer.text
        assert answer.record["dropped_cells"] == 2
        assert [(await notebook.answer(each)).status for each in behind] == ["aborted"] * 2


@in_a_loop
async def test_a_rollback_that_keeps_the_queue_lets_the_cells_behind_it_run() -> None:
    async with open_notebook() as notebook:
        await notebook.run("x = 1\n%checkpoint a\nx = 2")
        first = await hold(notebook)
        back, *behind = (notebook.send(code) for code in ("%rollback a --keep-queue", "x", "x + 1"))
        await notebook.taken_in()
        first.end()
        answer = await notebook.answer(back)
        assert "dropped" not in answer.text
        assert answer.record["dropped_cells"] == 0
        assert [(await notebook.answer(each)).text for each in behind] == ["1\n", "2\n"]


@in_a_loop
async def test_after_a_rollback_values_and_in_numbers_are_those_of_the_checkpoint() -> None:
    async with open_notebook() as notebook:
        await notebook.run("x = 1")
        await notebook.run("%checkpoint a")
        await notebook.run("x = 2")
        back = await notebook.run("%rollback a")
        assert back.reply["content"]["execution_count"] == 1
        answer = await notebook.run("x")
        assert answer.text == "1\n"
        assert answer.reply["content"]["execution_count"] == 2


@in_a_loop
async def test_rollback_without_any_checkpoint_says_what_to_type() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run("%rollback")
        assert answer.status == "error"
        assert "no checkpoint to go back to yet" in answer.text
        assert "%checkpoint LABEL" in answer.text


@in_a_loop
async def test_a_slip_of_the_finger_is_answered_with_what_was_meant() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run("%chekpoint a")
        assert answer.status == "error"
        assert "Did you mean %checkpoint?" in answer.text
        answer = await notebook.run("%%branhc a\n1")
        assert "Did you mean %%branch?" in answer.text


@in_a_loop
async def test_text_that_looks_like_a_magic_is_left_alone() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run('text = """\n%fork 3\n"""\nprint(text)')
        assert answer.text == "\n%fork 3\n\n"
        assert len(notebook.session.branches()) == 1


@in_a_loop
async def test_help_comes_by_question_mark_in_the_pager_and_by_flag_as_output() -> None:
    async with open_notebook() as notebook:
        paged = await notebook.run("%fork?")
        [page] = paged.reply["content"]["payload"]
        assert page["source"] == "page"
        assert "%fork N" in page["data"]["text/plain"]
        assert "%fork N" in (await notebook.run("%fork --help")).text


@in_a_loop
async def test_a_threads_output_after_its_cell_still_bears_that_cell() -> None:
    async with open_notebook() as notebook:
        sent = notebook.send(
            "import threading, time\n"
            "def late():\n    time.sleep(.3); print('late')\n"
            "threading.Thread(target=late).start()"
        )
        await notebook.answer(sent)
        await notebook.wait_output(sent, "late")


@in_a_loop
async def test_silent_magics_publish_nothing_but_their_status() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run("%checkpoint quiet", silent=True)
        assert answer.types == ["busy", "idle"]
        assert len(notebook.session.checkpoints()) == 2


@in_a_loop
async def test_user_expressions_of_a_mixed_cell_are_evaluated_after_it() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run(
            "y = 6\n%checkpoint a\ny = 7", user_expressions={"doubled": "2 * y"}
        )
        value = answer.reply["content"]["user_expressions"]["doubled"]
        assert value["data"]["text/plain"] == "14"


@in_a_loop
async def test_cells_sent_while_the_machine_comes_up_are_run_when_it_is_there() -> None:
    async with open_notebook() as notebook:
        sent = [notebook.send(f"print({number})") for number in range(3)]
        texts = [(await notebook.answer(each)).text for each in sent]
        assert texts == ["0\n", "1\n", "2\n"]

"""Branches through the whole proxy: forks, cells in several, switching, keeping, dropping."""

from pathlib import Path

from tests.support.front_end import Answer, in_a_loop, open_notebook

from branchpoint_vmruntime.errors import CheckpointError


def left_shown(answer: Answer) -> dict[str, str]:
    """The last display: what takes a while is shown before its end, and then in place of that."""
    return [m["content"]["data"] for m in answer.outputs if m["msg_type"] == "display_data"][-1]


@in_a_loop
async def test_a_fork_shows_a_tree_and_leaves_a_record() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run("%fork 3 --names ridge,forest,boost")
        assert "├─ ridge" in answer.text
        assert "└─ boost" in answer.text
        record = answer.record
        assert record["op"] == "fork"
        assert record["made"] == ["ridge", "forest", "boost"]
        assert record["branches"][0]["name"] == "main"
        assert record["memory"] == {"own": 9_000_000, "shared": 412_000_000}
        assert record["phases_ms"]["spawn"] == 30.0


@in_a_loop
async def test_a_cell_runs_in_all_other_branches_at_once_and_shows_them_side_by_side() -> None:
    async with open_notebook() as notebook:
        await notebook.run("x = 5")
        await notebook.run("%fork 2 --names a,b")
        answer = await notebook.run("%%branch all\nprint(branch.name)\nx + branch.index")
        assert answer.status == "ok"
        assert answer.types.count("busy") == answer.types.count("idle") == 1
        assert left_shown(answer)["text/html"].count("flex:1 1") == 2
        assert "── a" in answer.text
        assert "a\n6" in answer.text
        assert "b\n7" in answer.text
        assert [run["status"] for run in answer.record["runs"]] == ["ok", "ok"]
        assert all(run["elapsed_ms"] > 0 for run in answer.record["runs"])


@in_a_loop
async def test_branches_run_side_by_side_not_one_after_another(tmp_path: Path) -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 2 --names a,b")
        meet = (
            "%%branch all\n"
            "import pathlib, time\n"
            f"place = pathlib.Path({str(tmp_path)!r})\n"
            "(place / branch.name).touch()\n"
            "end = time.monotonic() + 60\n"
            "while len(list(place.iterdir())) < 2 and time.monotonic() < end: time.sleep(.02)\n"
            "len(list(place.iterdir())) == 2"
        )
        answer = await notebook.run(meet)
        assert left_shown(answer)["text/plain"].count("True") == 2


@in_a_loop
async def test_a_cell_that_fails_in_one_branch_fails_and_names_it() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 2 --names a,b")
        answer = await notebook.run("%%branch all\n1 / (branch.index - 1)")
        assert answer.status == "error"
        assert "failed in 1 of 2 branches: a" in answer.reply["content"]["evalue"]
        assert "ZeroDivisionError" in answer.text
        assert [run["status"] for run in answer.record["runs"]] == ["error", "ok"]


@in_a_loop
async def test_all_with_no_other_branch_says_what_to_type() -> None:
    async with open_notebook() as notebook:
        answer = await notebook.run("%%branch all\n1")
        assert answer.status == "error"
        assert "no live branch besides the current one" in answer.text
        assert "%fork" in answer.text


@in_a_loop
async def test_an_unknown_branch_is_answered_with_what_there_is_and_what_was_meant() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names forest")
        answer = await notebook.run("%%branch forrest\n1")
        assert "there is: main, forest" in answer.text
        assert "did you mean 'forest'?" in answer.text


@in_a_loop
async def test_a_slow_cell_in_branches_shows_what_there_is_and_ends_with_one_display() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names a")
        answer = await notebook.run(
            "%%branch a\nimport time\nprint(1, flush=True)\ntime.sleep(1.5)"
        )
        assert answer.types.count("display_data") >= 2
        last_two = answer.types[-3:-1]
        assert last_two == ["clear_output", "display_data"]
        assert [run["status"] for run in answer.record["runs"]] == ["ok"]


@in_a_loop
async def test_after_a_switch_the_background_output_of_the_branch_left_stays_unseen(
    tmp_path: Path,
) -> None:
    async with open_notebook() as notebook:
        await notebook.run("x = 'main'")
        await notebook.run("%fork 1 --names other")
        await notebook.run("%%branch other\nx = 'other'")
        await notebook.run(
            "import os, threading, time\n"
            "def talk():\n"
            f"    while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(.02)\n"
            "    print('from the background')\n"
            "threading.Thread(target=talk).start()"
        )
        await notebook.run("%switch other")
        assert (await notebook.run("x")).text == "'other'\n"
        (tmp_path / "go").touch()
        while "unseen" not in (await notebook.run("%branches")).text:
            pass
        texts = [message["content"].get("text", "") for message in notebook.seen]
        assert "from the background" not in "".join(texts)


@in_a_loop
async def test_keeping_a_branch_parks_the_rest_and_switching_wakes_them() -> None:
    async with open_notebook() as notebook:
        await notebook.run("x = 1")
        await notebook.run("%fork 2 --names a,b")
        kept = await notebook.run("%keep b")
        assert kept.record["branch"] == "b"
        assert set(kept.record["parked"]) == {"main", "a"}
        refused = await notebook.run("%%branch a\nx")
        assert "wake it with %switch a" in refused.text
        await notebook.run("%switch main")
        assert (await notebook.run("x")).text == "1\n"


@in_a_loop
async def test_a_keep_that_cannot_park_a_branch_says_so_and_goes_on_as_another() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 2 --names a,b")
        notebook.session.save_errors["main"] = CheckpointError("the disk is full")
        kept = await notebook.run("%keep b")
        assert kept.status == "ok"
        assert "this notebook continues as b" in kept.text
        assert "⚠ main could not be parked and runs on   the disk is full" in kept.text
        assert (kept.record["parked"], kept.record["failed"]) == (
            ["a"],
            {"main": "the disk is full"},
        )
        assert "* b" in (await notebook.run("%branches")).text
        del notebook.session.save_errors["main"]
        assert (await notebook.run("%keep b")).record["parked"] == ["main"]


@in_a_loop
async def test_a_dropped_branch_is_gone_from_the_list() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 2 --names a,b")
        await notebook.run("%drop a")
        listed = (await notebook.run("%branches")).text
        assert "b " in listed
        assert "a " not in listed.replace("main ", "")


@in_a_loop
async def test_a_cell_in_the_current_branch_counts_there() -> None:
    async with open_notebook() as notebook:
        await notebook.run("%fork 1 --names a")
        await notebook.run("%%branch main,a\n1")
        assert (await notebook.run("2")).reply["content"]["execution_count"] == 2

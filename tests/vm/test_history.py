"""Cells a checkpoint remembers, automatic checkpoints, and going back by cells."""

from typing import Any

import pytest
from tests.support.live_kernel import LiveKernel

pytestmark = pytest.mark.vm


def run_from(kernel: LiveKernel, *cells: tuple[str, str]) -> None:
    """Run cells as a notebook does that sends each with the id of its place, all at once."""
    sent: list[str] = []
    for cell_id, code in cells:
        kernel.client.session.metadata = {"cellId": cell_id}
        sent.append(kernel.start(code))
    kernel.client.session.metadata = {}
    for message_id in sent:
        kernel.finish(message_id)


def checkpoints(kernel: LiveKernel, kind: str) -> list[dict[str, Any]]:
    every = kernel.run("%checkpoints").record["checkpoints"]
    return [point for point in every if point["kind"] == kind]


def test_run_all_with_automatic_checkpoints_gives_each_node_its_cell(kernel: LiveKernel) -> None:
    kernel.run("%autocheckpoint on")
    cells = [("id-a", "x = 1"), ("id-b", "x += 1\nx"), ("id-c", "x += 1")]
    run_from(kernel, *cells)
    nodes = checkpoints(kernel, "auto")
    assert len(nodes) == 4
    assert [node["cell"] for node in nodes[1:]] == [
        {"id": cell_id, "count": count, "source": source}
        for count, (cell_id, source) in enumerate(cells, 1)
    ]
    assert not any(node["inside_cell"] for node in nodes)


def test_undo_goes_back_by_cells_and_is_itself_undone_by_a_rollback(kernel: LiveKernel) -> None:
    kernel.run("%autocheckpoint on")
    for code in ("x = 1", "x = 2", "1 / 0", "x = 3"):
        kernel.run(code, expect="error" if "/" in code else "ok")
    undone = kernel.run("%undo")
    assert [cell["source"] for cell in undone.record["cells"]] == ["x = 3"]
    assert kernel.value("x") == "2"
    kernel.run("%undo 3")
    assert kernel.value("x") == "1"
    kernel.run(f"%rollback {undone.record['safety']}")
    assert kernel.value("x") == "3"


def test_undo_says_when_it_goes_further_back_than_asked(kernel: LiveKernel) -> None:
    refused = kernel.run("%undo", expect="error")
    assert "%autocheckpoint on" in refused.text
    kernel.run("%autocheckpoint every 2")
    for number in range(1, 4):
        kernel.run(f"x = {number}")
    assert "1 undone" in kernel.run("%undo --preview").text
    undone = kernel.run("%undo 2")
    assert "3 cells undone" in undone.text
    assert "NameError" in kernel.run("x", expect="error").text


def test_a_preview_says_what_a_rollback_would_undo_and_changes_nothing(
    kernel: LiveKernel,
) -> None:
    kernel.run("gone = 1\nopen('/root/kept', 'w').write('before')")
    kernel.run("%checkpoint here")
    kernel.run("new = 2; del gone")
    kernel.run("open('/root/kept', 'w').write('after!'); open('/root/made', 'w').close()")
    before = kernel.run("%checkpoints").record["checkpoints"]
    record = kernel.run("%rollback here --preview").record
    assert record["op"] == "preview"
    assert [cell["source"].split("=")[0] for cell in record["cells"]][:1] == ["new "]
    assert len(record["cells"]) == 2
    assert {each["path"]: each["change"] for each in record["files"]} == {
        "/root/kept": "changed",
        "/root/made": "removed",
    }
    changes = {each["name"]: each["change"] for each in record["variables"]}
    assert changes == {"gone": "added", "new": "removed"}
    assert kernel.run("%checkpoints").record["checkpoints"] == before
    assert kernel.value("new, open('/root/kept').read()") == "2 after!"

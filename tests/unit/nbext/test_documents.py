"""The copy of a document that continues a branch has what stood up to where the branch began."""

from typing import Any

import nbformat
import pytest

from branchpoint_nbext.documents import NOTE, Whence, copy_up_to, last_of
from branchpoint_vmruntime.lineage import Cell

WHENCE = Whence(session="s", branch="ridge", notebook="a.ipynb", checkpoint="loaded")


def code(id: str, count: int | None = None) -> dict[str, Any]:  # noqa: A002
    return {
        "cell_type": "code",
        "id": id,
        "execution_count": count,
        "metadata": {},
        "outputs": [],
        "source": id,
    }


def text(id: str) -> dict[str, Any]:  # noqa: A002
    return {"cell_type": "markdown", "id": id, "metadata": {}, "source": id}


def ran(*ids: str) -> list[Cell]:
    return [Cell(id=id, count=count, source=id) for count, id in enumerate(ids, 1)]  # noqa: A001


CELLS = [text("title"), code("load", 1), text("now-fit"), code("fork", 2), code("after", 3)]


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        (ran("load", "fork"), 4),
        (ran("load"), 2),
        (ran("fork", "load"), 2),
        (ran("load", "deleted"), 2),
        (ran("deleted", "deleted too"), 4),
        ([], 1),
    ],
    ids=["fork", "first", "out of order", "last is gone", "all are gone", "nothing was run"],
)
def test_a_copy_ends_with_the_cell_at_which_the_branch_began(line: list[Cell], cells: int) -> None:
    assert last_of(CELLS, line) == cells


def test_a_document_whose_cells_have_no_ids_is_cut_by_their_numbers() -> None:
    old = [{name: it for name, it in cell.items() if name != "id"} for cell in CELLS]
    assert last_of(old, [Cell(id="", count=2, source="fork")]) == 4


def test_a_document_of_text_alone_is_copied_whole() -> None:
    assert last_of([text("a"), text("b")], []) == 2


def test_a_copy_keeps_texts_and_outputs_and_tells_whence_it_is() -> None:
    out = {"output_type": "stream", "name": "stdout", "text": "42\n"}
    document = {
        "cells": [text("title"), {**code("load", 1), "outputs": [out]}, code("after", 2)],
        "metadata": {"kernelspec": {"name": "other"}, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    made = copy_up_to(document, ran("load"), WHENCE)
    nbformat.validate(made)
    assert [cell["id"] for cell in made["cells"]] == ["title", "load"]
    assert made["cells"][1]["outputs"] == [out]
    assert made["metadata"]["kernelspec"]["name"] == "branchpoint"
    assert made["metadata"]["language_info"] == {"name": "python"}
    assert made["metadata"][NOTE] == {
        "session": "s",
        "branch": "ridge",
        "notebook": "a.ipynb",
        "checkpoint": "loaded",
    }


def test_the_document_that_is_copied_is_left_as_it_was() -> None:
    document = {"cells": list(CELLS), "metadata": {"kernelspec": {"name": "other"}}}
    copy_up_to(document, [], WHENCE)["cells"][0]["source"] = "other"
    assert document["cells"] == CELLS
    assert CELLS[0]["source"] == "title"
    assert document["metadata"] == {"kernelspec": {"name": "other"}}

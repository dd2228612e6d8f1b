"""What a saved notebook keeps of a lineage: a picture and tables, converted as anybody would."""
# nbformat is untyped in part.
# pyright: reportUnknownMemberType=false

import asyncio
from base64 import b64encode
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import nbformat
import pytest
from nbconvert import HTMLExporter, MarkdownExporter
from tests.support.fake_session import FakeSession
from tests.unit.lineage.facts import DAY, a_base, a_branch, a_checkpoint

from branchpoint_kernel.lineage_still import picture, summary, tables
from branchpoint_vmruntime.control_facts import BranchFacts, CheckpointFacts
from branchpoint_vmruntime.lineage_view import BranchView, CheckpointView, LineageView

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
LABEL = "<b>not bold</b> & co"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def view() -> LineageView:
    points = [a_base(), a_checkpoint("one"), a_checkpoint("two", "one", label=LABEL)]
    branch = a_branch(head="two")
    facts = BranchFacts(
        name=branch.name,
        state=branch.state,
        current=True,
        index=0,
        parent=None,
        origin=branch.origin,
        head=branch.head,
        head_label=LABEL,
        created_at=DAY,
        own_bytes=61_000_000,
        shared_bytes=402_000_000,
    )
    return LineageView(
        version=1,
        session="s",
        key="/home/me/models.ipynb",
        created_at=DAY,
        owner=None,
        current="main",
        checkpoints=tuple(
            CheckpointView(facts=CheckpointFacts.of(it, pinned=it.id == "one")) for it in points
        ),
        branches=(BranchView(facts=facts, tokens_in=1200, tokens_out=34, micros=42_000),),
        currency="USD",
    )


@pytest.fixture(scope="module")
def drawn(view: LineageView) -> dict[str, Any]:
    async def draw() -> dict[str, Any]:
        async with FakeSession() as session:
            return dict((await picture(session, view)).data)

    return asyncio.run(draw())


@pytest.fixture(scope="module")
def saved(view: LineageView, drawn: dict[str, Any]) -> Any:
    where = {"version_major": 2, "version_minor": 0, "model_id": "gone"}
    shown = ({"text/plain": summary(view), WIDGET_VIEW: where}, drawn, tables(view))
    cell: Any = nbformat.v4.new_code_cell("%lineage")
    cell.outputs = [nbformat.v4.new_output("display_data", dict(data)) for data in shown]
    notebook: Any = nbformat.v4.new_notebook(cells=[cell])
    nbformat.validate(notebook)
    return notebook


class Tables(HTMLParser):
    """Counts what a page has of tables."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scopes: list[str | None] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note it."""
        self.tags.append(tag)
        if tag == "th":
            self.scopes.append(dict(attrs).get("scope"))


def encoded(drawn: dict[str, Any]) -> str:
    """The picture as nbconvert puts it into a page."""
    return b64encode(drawn["image/svg+xml"].encode()).decode()


def test_a_page_made_of_it_shows_picture_and_tables_and_looks_for_no_widget(
    saved: Any, drawn: dict[str, Any]
) -> None:
    html, _ = HTMLExporter().from_notebook_node(saved)
    assert f"data:image/svg+xml;base64,{encoded(drawn)}" in html
    assert Tables(html).tags.count("table") == 2
    assert '"model_id": "gone"' not in html
    assert "&lt;b&gt;not bold&lt;/b&gt;" in html


def test_as_markdown_the_picture_is_a_file_of_its_own(saved: Any) -> None:
    made: Any = MarkdownExporter().from_notebook_node(saved)
    text, more = made
    assert [name for name in more["outputs"] if name.endswith(".svg")]
    assert "branchpoint-lineage-table" in text


def test_every_header_of_the_tables_says_what_it_heads(view: LineageView) -> None:
    found = Tables(tables(view)["text/html"])
    assert set(found.scopes) == {"col", "row"}
    assert found.scopes.count("row") == 4
    assert found.tags.count("caption") == 2


def test_the_tables_say_what_each_branch_has_cost(view: LineageView) -> None:
    text = tables(view)["text/plain"]
    assert "61 MB own, 402 MB shared" in text
    assert "1234" in text
    assert "0.042 USD" in text
    assert "pinned" in text


def test_the_picture_is_sound_and_says_in_words_what_it_shows(drawn: dict[str, Any]) -> None:
    root = ElementTree.fromstring(drawn["image/svg+xml"])
    assert root.get("role") == "img"
    assert str(root.findtext(f"{SVG}title")).startswith("Lineage of models.ipynb")
    assert "main is live, this notebook" in str(root.findtext(f"{SVG}desc"))


def test_no_folder_of_this_computer_is_in_what_is_saved(saved: Any) -> None:
    assert "/home/me" not in str(saved)

"""A session of 300 checkpoints on 41 branches in the panel of a JupyterLab: it can be read."""

import re
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, WebSocket, expect
from tests.support.jupyter_server import JupyterServer
from tests.support.large_session import BRANCHES, EACH, STEPS, add_one, large_session
from tests.support.page_parts import faint_in_either_theme
from tests.support.web_page import NotebookPage, pictures

from branchpoint_vmruntime.home import Home

pytestmark = [pytest.mark.vm, pytest.mark.browser]

BASE, TIPS = 1, BRANCHES + 1
ALL = BASE + STEPS + BRANCHES * EACH + TIPS
FOLDED = BASE + STEPS + BRANCHES + 1
_WATCH = """() => {
  window.written = 0;
  const tree = document.querySelector('#branchpoint-panel .bp-lineage');
  new MutationObserver(list => (window.written += list.length)).observe(tree, {
    subtree: true, childList: true, attributes: true, characterData: true
  });
}"""


class LargePage:
    """A page without a notebook, the large session in its panel, and what it was told of that."""

    def __init__(self, opened: NotebookPage) -> None:
        page = self.page = opened.page
        self.complaints = opened.complaints
        self.panel = page.locator("#branchpoint-panel")
        self.rows = self.panel.get_by_role("treeitem")
        self.told = list[int]()
        page.on("websocket", self._listen)

    def _listen(self, socket: WebSocket) -> None:
        if "/branchpoint/live" in socket.url:
            socket.on("framereceived", lambda told: self.told.append(len(told)))

    def row(self, name: str) -> Locator:
        """The row of a checkpoint or a branch, by what it is called."""
        title = re.compile(f"^{re.escape(name)}$")
        return self.rows.filter(has=self.page.locator(".bp-title", has_text=title))

    def press(self, words: str) -> None:
        """Press a button above the tree."""
        self.panel.locator(".bp-tools").get_by_role("button", name=words, exact=True).click()


@pytest.fixture(scope="module")
def large(
    lab: JupyterServer,
    context: BrowserContext,
    home: Home,
    tmp_path_factory: pytest.TempPathFactory,
) -> Generator[LargePage]:
    """The panel with a large session in it, whose notebook is closed; no page may complain."""
    folder = pictures(tmp_path_factory.mktemp("large"))
    with large_session(home, lab.folder / "large.ipynb"):
        page = LargePage(NotebookPage(context.new_page(), folder))
        page.page.goto(f"{lab.url}/lab/workspaces/large?token={lab.token}")
        page.page.wait_for_function(
            "window.jupyterapp?.commands.hasCommand('branchpoint:show-panel')"
        )
        page.page.evaluate(
            "window.jupyterapp.restored.then(() => "
            "window.jupyterapp.commands.execute('branchpoint:show-panel'))"
        )
        page.panel.get_by_role("button", name=re.compile("^large.ipynb")).click()
        expect(page.rows).to_have_count(FOLDED)
        yield page
        page.page.close()
    assert page.complaints == []


def test_where_one_is_is_in_sight_at_once_and_what_rests_is_one_row_a_branch(
    large: LargePage, tmp_path: Path
) -> None:
    here = large.panel.locator("[aria-current=true]")
    expect(here).to_be_in_viewport(ratio=0.9)
    expect(here.locator(".bp-title")).to_have_text("main")
    expect(large.row("idea-39")).to_have_attribute("aria-expanded", "false")
    # Side by side they are told apart by their numbers.
    tail = large.row("step-99").locator(".bp-title > :last-child")
    assert tail.evaluate("it => it.scrollWidth <= it.parentElement.clientWidth")
    large.page.screenshot(path=pictures(tmp_path) / "large-folded.png")
    assert faint_in_either_theme(large.page, "#branchpoint-panel .bp-lineage") == []


def test_search_folding_sizes_and_keys_lead_through_it(large: LargePage, tmp_path: Path) -> None:
    search = large.panel.get_by_role("searchbox")
    search.fill("try-17-3")
    expect(large.panel.locator(".bp-count")).to_have_text(f"1 of {ALL}")
    expect(large.row("try-17-3")).to_be_in_viewport(ratio=0.9)
    large.page.screenshot(path=pictures(tmp_path) / "large-found.png")
    search.press("Escape")
    expect(large.rows).to_have_count(FOLDED)
    large.press("Unfold")
    expect(large.rows).to_have_count(ALL)
    large.press("Size of rows: normal")
    large.press("Here")
    here = large.panel.locator("[aria-current=true]")
    expect(here).to_be_focused()
    expect(here).to_be_in_viewport(ratio=0.9)
    large.page.screenshot(path=pictures(tmp_path) / "large-unfolded.png")
    large.page.keyboard.press("Home")
    expect(large.rows.first).to_be_focused()
    expect(large.rows.first).to_be_in_viewport(ratio=0.9)
    large.page.keyboard.press("End")
    expect(here).to_be_focused()


def test_a_change_is_told_in_short_and_scrolls_nobody_away(large: LargePage, home: Home) -> None:
    large.page.keyboard.press("Home")
    scroll = large.panel.locator(".bp-scroll")
    was = scroll.evaluate("it => it.scrollTop")
    assert large.told[0] > 100_000
    large.told.clear()
    large.page.evaluate(_WATCH)
    # Twice as long as what is on record is left unlooked at.
    large.page.wait_for_timeout(1000)
    assert (large.page.evaluate("window.written"), large.told) == (0, [])
    add_one(home, "just-now")
    expect(large.row("just-now")).to_have_count(1)
    assert scroll.evaluate("it => it.scrollTop") == was
    assert max(large.told) < 5000

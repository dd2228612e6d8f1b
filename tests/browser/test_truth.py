"""Panel and widget show what is on record, whatever happened to page, kernel and server."""

import re
import time
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import Browser, Locator, expect
from tests.support.jupyter_server import jupyter_server
from tests.support.page_parts import faint_in_either_theme, nameless, shifts, titled
from tests.support.recorded_rows import recorded_rows, shown_rows
from tests.support.steering import Steering
from tests.support.web_page import (
    PATIENCE_MS,
    NotebookPage,
    pictures,
    write_notebook,
    write_settings,
)

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal

pytestmark = [pytest.mark.vm, pytest.mark.browser]

CELLS = ("n = 1", "%checkpoint one", "%lineage", "n = 2", "%checkpoint two")
ROUTE = "lab/workspaces/truth/tree/truth.ipynb"
EXPOSED = "--LabApp.expose_app_in_browser=True"
ROLLBACKS = 50
# What Chromium says by itself of a server that is away, and of a kernel that went with it.
_AWAY = re.compile(
    "net::ERR_|before receiving a handshake response"
    "|status of 404 .*(kernel=|api/kernels/|api/sessions/)"
)
_FOCUS = """([root, wanted]) => {
  const at = document.activeElement;
  return [at.closest(root) !== null, at.textContent || at.ariaLabel, at.matches(wanted)];
}"""


class Pages:
    """The server, and pages of the notebook on it."""

    def __init__(self, home: Home, browser: Browser, folder: Path, kept: Path) -> None:
        self.home = home
        self.folder = folder
        self._kept = kept
        self._context = browser.new_context(viewport={"width": 1700, "height": 1000})
        self._serving = ExitStack()
        self.server = self._serving.enter_context(jupyter_server("jupyterlab", folder, EXPOSED))
        write_settings(self.server)
        write_notebook(folder / "truth.ipynb", *CELLS)
        self.opened: list[Shown] = []

    def open(self, route: str = ROUTE) -> "Shown":
        """Another page, with the panel beside the notebook."""
        shown = Shown(NotebookPage(self._context.new_page(), self._kept))
        self.opened.append(shown)
        shown.notebook.open(self.server, route)
        shown.show_panel()
        return shown

    def restart_server(self) -> None:
        """End it, with its kernels as it does, and have one in its place."""
        self._serving.close()
        self.server = self._serving.enter_context(
            jupyter_server("jupyterlab", self.folder, EXPOSED, again=self.server)
        )

    def close(self) -> None:
        """All of it; no page may have complained."""
        self._context.close()
        self._serving.close()
        said = [it for shown in self.opened for it in shown.notebook.complaints]
        assert [it for it in said if not _AWAY.search(it)] == []

    def session(self) -> SessionRecord:
        """The notebook's, as it is on record."""
        with Journal.read(self.home.database) as journal:
            (found,) = [it for it in journal.sessions() if it.key.endswith("/truth.ipynb")]
            return found

    def act(self, op: str, **fields: Any) -> None:
        """Have the session do something, as a page would."""
        answer = requests.post(
            f"{self.server.url}/branchpoint/act",
            json={"session": self.session().id, "op": op, **fields},
            headers={"Authorization": f"token {self.server.token}"},
            timeout=PATIENCE_MS / 1000,
        )
        assert answer.ok, answer.text


@dataclass
class Shown:
    """A page with the panel open, and the places in it that show the lineage."""

    notebook: NotebookPage

    @property
    def panel(self) -> Locator:
        """The tree of the panel."""
        return self.notebook.page.locator("#branchpoint-panel .bp-lineage")

    @property
    def widget(self) -> Locator:
        """The tree of the widget."""
        return self.notebook.cell(2).locator(".bp-lineage")

    @property
    def status(self) -> Locator:
        """What the status bar has of it."""
        return self.notebook.page.locator(".bp-Status")

    @property
    def words(self) -> Locator:
        """What the panel says of the notebook's kernel."""
        return self.notebook.page.locator(".bp-Panel-words")

    @property
    def head(self) -> Locator:
        """What stands above the panel's tree."""
        return self.notebook.page.locator(".bp-Panel-head")

    def show_panel(self) -> None:
        """Open the panel by a click on the status bar."""
        self.status.click()
        expect(self.panel).to_be_visible()

    def press(self, title: str, deed: str) -> None:
        """Select a row of the panel's tree, and press a button of what is offered there."""
        titled(self.panel, title).click()
        self.panel.get_by_role("button", name=deed, exact=True).first.click()


@pytest.fixture(scope="module")
def pages(
    home: Home, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Pages]:
    """A running JupyterLab, for all of it."""
    folder = tmp_path_factory.mktemp("truth")
    opened = Pages(home, browser, folder, pictures(tmp_path_factory.mktemp("pictures")))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def first(pages: Pages) -> Shown:
    """The page that every test goes on with."""
    shown = pages.open()
    for number in range(len(CELLS)):
        shown.notebook.run_cell(number)
    shown.notebook.save(pages.folder / "truth.ipynb")
    pages.act("fork", count=1, names=["other"])
    return shown


def show_the_truth(pages: Pages, *trees: Locator) -> None:
    """Wait until these show just what is on record."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    recorded = recorded_rows(pages.home, "truth.ipynb")
    for tree in trees:
        while (shown := shown_rows(tree)) != (wanted := recorded()):
            assert time.monotonic() < deadline, (shown, wanted)
            pages.opened[0].notebook.page.wait_for_timeout(200)


@pytest.mark.timeout(1200)
def test_after_fifty_rollbacks_both_show_the_truth_and_so_does_the_machine(
    pages: Pages, first: Shown
) -> None:
    for number in range(ROLLBACKS):
        pages.act("rollback", target=("two", "one")[number % 2], safety=False)
    for tree in (first.panel, first.widget):
        expect(tree.locator(".bp-status-words")).to_contain_text(
            f"{ROLLBACKS} \N{MULTIPLICATION SIGN} rollback"
        )
    show_the_truth(pages, first.panel, first.widget)
    first.notebook.write_cell(3, "print('n is', n)")
    first.notebook.run_cell(3)
    first.notebook.wait_output(3, "n is 1")


def test_a_page_that_is_loaded_again_and_a_second_one_show_it_too(
    pages: Pages, first: Shown
) -> None:
    first.notebook.open(pages.server, ROUTE)
    # A workspace that was not stored yet is put together without the panel.
    first.show_panel()
    second = pages.open(ROUTE.replace("/truth/", "/second/"))
    show_the_truth(pages, first.panel, first.widget, second.panel, second.widget)
    pages.act("switch", name="other")
    pages.act("checkpoint", label="outside")
    pages.act("pause", name="main")
    for shown in (first, second):
        expect(shown.status).to_contain_text("other · ")
    show_the_truth(pages, first.panel, first.widget, second.panel, second.widget)
    second.notebook.page.close()


def test_nothing_of_ours_moves_while_memory_is_used(pages: Pages, first: Shown) -> None:
    kernel = pages.server.ask("GET", "kernels").json()[0]["id"]
    memory = first.notebook.page.locator(".bp-Panel-memory")
    before = memory.inner_text()
    ours = ".bp-Panel, .bp-lineage, .bp-Status"
    with shifts(first.notebook.page, ours) as moved, pages.server.connect(kernel) as connected:
        connected.run(
            "block = bytearray(48 << 20)\nfor at in range(0, len(block), 4096): block[at] = 1"
        )
        expect(memory).not_to_have_text(before)
        first.notebook.page.wait_for_timeout(2500)
    assert moved == []


def test_every_control_has_a_name_and_can_be_reached_by_tab(pages: Pages, first: Shown) -> None:
    page = first.notebook.page
    widget = ".jp-OutputArea .bp-lineage"
    toolbar = ".jp-NotebookPanel:not(.lm-mod-hidden) .bp-ToolbarButton"
    titled(first.panel, "one").click()
    assert nameless(page, "#branchpoint-panel", widget, ".bp-Status", toolbar) == []
    first.panel.get_by_role("searchbox").focus()
    walked = list[str]()
    for _ in range(60):
        page.keyboard.press("Tab")
        inside, words, seen = page.evaluate(_FOCUS, ["#branchpoint-panel", ":focus-visible"])
        if not inside:
            break
        assert seen, words
        walked.append(words)
    offered = first.panel.locator(".bp-desk button:visible").all_inner_texts()
    assert walked[:6] == ["Here", "Fold", "Unfold", "Aa", "Table", "Details"]
    assert walked[7 : 7 + len(offered)] == offered


def test_every_word_of_ours_can_be_read_in_either_theme(pages: Pages, first: Shown) -> None:
    ours = ".bp-Panel, .jp-OutputArea .bp-lineage, .bp-Status, .bp-ToolbarButton"
    assert faint_in_either_theme(first.notebook.page, ours) == []


def test_what_the_palette_offers_is_done(pages: Pages, first: Shown) -> None:
    dialog = first.notebook.page.locator(".jp-Dialog")
    first.notebook.command("Switch Branch")
    dialog.get_by_role("button", name="Switch", exact=True).click()
    expect(first.status).to_contain_text("main · ")
    first.notebook.command("Pause")
    expect(first.status).to_have_text("main · paused")
    first.notebook.command("Resume")
    expect(first.status).to_have_text(re.compile(r"^main · .* · idle$"))
    first.notebook.command("Open Branch as Notebook")
    expect(dialog.get_by_role("option")).to_have_text(["other"])
    dialog.get_by_role("button", name="Cancel").click()
    first.notebook.write_cell(0, "n = 'edited'")
    first.notebook.command("Restore the Text")
    dialog.get_by_role("button", name="Restore", exact=True).click()
    expect(dialog).to_contain_text("n = 'edited' → n = 1")
    dialog.get_by_role("button", name="Restore", exact=True).click()
    expect(first.notebook.cell(0).locator(".cm-content")).to_have_text("n = 1")


def test_keys_lead_to_every_command_that_has_some(pages: Pages, first: Shown) -> None:
    page = first.notebook.page
    dialog = page.locator(".jp-Dialog")
    asked = {
        "F": "Fork main",
        "R": "Roll main back to",
        "S": "Switch to",
    }
    first.notebook.cell(3).locator(".jp-InputPrompt").click()
    for key, words in asked.items():
        page.keyboard.press(f"Alt+Shift+{key}")
        expect(dialog).to_contain_text(words)
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_have_count(0)
    page.keyboard.press("Alt+Shift+C")
    first.notebook.wait_notified("Saved as")
    page.evaluate("window.jupyterapp.commands.execute('application:toggle-right-area')")
    expect(first.panel).to_be_hidden()
    page.keyboard.press("Alt+Shift+L")
    expect(first.panel).to_be_visible()
    show_the_truth(pages, first.panel, first.widget)


def test_what_only_a_page_can_do_is_offered_in_the_panel(first: Shown) -> None:
    page = first.notebook.page
    first.notebook.write_cell(0, "n = 'edited again'")
    first.press("one", "Restore text…")
    page.locator(".jp-Dialog").get_by_role("button", name="Restore", exact=True).click()
    expect(first.notebook.cell(0).locator(".cm-content")).to_have_text("n = 1")
    first.press("other", "Side by side")
    expect(page.get_by_role("heading", name="Branches main and other")).to_be_visible()
    page.evaluate("window.jupyterapp.commands.execute('application:close')")
    expect(first.widget).to_be_visible()


def test_after_the_kernel_is_restarted_both_show_the_truth(pages: Pages, first: Shown) -> None:
    notebook = first.notebook
    notebook.choose("Kernel", "Restart Kernel…")
    notebook.page.locator(".jp-Dialog .jp-mod-accept").click()
    notebook.page.locator(".jp-Dialog").wait_for(state="detached")
    # What was main rests under this name, and main is another.
    expect(titled(first.panel, "main~1")).to_be_visible()
    show_the_truth(pages, first.panel, first.widget)


def test_after_the_server_is_restarted_the_panel_shows_what_its_kernels_left(
    pages: Pages, first: Shown
) -> None:
    """A server that ends takes its kernels with it."""
    page = first.notebook.page
    # JupyterLab may complain of it, sooner or later or not at all.
    asked = page.get_by_role("dialog", name="Server Connection Error")
    page.add_locator_handler(asked, lambda: page.keyboard.press("Escape"))
    # What is saved already is not saved by the page while there is no server.
    first.notebook.save(pages.folder / "truth.ipynb")
    pages.restart_server()
    expect(first.head).to_contain_text("closed")
    show_the_truth(pages, first.panel)
    expect(first.notebook.cell(2)).to_contain_text("this is how things were then")
    expect(first.words).to_contain_text("It has no running kernel")
    first.notebook.picture("truth-server-restarted")


def test_with_another_kernel_panel_and_widget_go_on(pages: Pages, first: Shown) -> None:
    Steering(first.notebook).choose_machine("Choose a kernel…")
    expect(first.words).to_be_hidden()
    expect(first.notebook.cell(2)).not_to_contain_text("this is how things were then")
    pages.act("checkpoint", label="again")
    show_the_truth(pages, first.panel, first.widget)

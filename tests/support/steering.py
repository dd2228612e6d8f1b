"""A notebook on a page of JupyterLab with the panel beside it, steered from there."""

import re

from playwright.sync_api import Locator, Page, expect
from tests.support.web_page import NotebookPage

_CONTEXT = "window.jupyterapp.shell.currentWidget.context"


class Steering:
    """What is pressed on such a page, and what it says."""

    def __init__(self, notebook: NotebookPage) -> None:
        self.notebook = notebook
        self.page: Page = notebook.page
        # Beside the panel there is to be room for the whole toolbar.
        self.page.set_viewport_size({"width": 1600, "height": 1000})
        self.panel: Locator = self.page.locator("#branchpoint-panel")
        self.dialog: Locator = self.page.locator(".jp-Dialog")
        self.told: Locator = self.page.locator(".jp-toast-message")
        self.state: Locator = self.page.locator(".bp-Status")

    def show_panel(self) -> None:
        """Open the panel by a click on the status bar."""
        self.state.click()
        expect(self.panel).to_be_visible()

    def row(self, name: str) -> Locator:
        """The row of a checkpoint or a branch, by what it is called."""
        title = re.compile(f"^{re.escape(name)}$")
        return self.panel.get_by_role("treeitem").filter(
            has=self.page.locator(".bp-title", has_text=title)
        )

    def offered(self, name: str, deed: str) -> Locator:
        """Something that the panel offers for a row, which is selected for it."""
        self.row(name).click()
        return self.panel.get_by_role("button", name=deed, exact=True).first

    def toolbar(self, label: str) -> Locator:
        """A button of the notebook's toolbar."""
        return self.notebook.panel.locator(f".bp-ToolbarButton[data-label='{label}'] jp-button")

    def answer(self, words: str) -> None:
        """Press a button of the dialog that is open, by its words."""
        # JupyterLab has other names for some of its buttons than their words.
        shown = re.compile(f"^{re.escape(words)}$")
        self.dialog.locator(".jp-Dialog-button", has_text=shown).click()

    def ask_for_machine(self, link: str) -> None:
        """Press what the panel offers to a notebook that is not in a machine, and choose one."""
        self.panel.get_by_role("button", name=link).click()
        self.dialog.get_by_role("combobox").select_option("Python 3 (microVM)")
        self.answer("Select")

    def choose_machine(self, link: str) -> None:
        """Ask for a machine in the panel, and wait until the notebook has it."""
        self.ask_for_machine(link)
        expect(self.state).to_have_text(re.compile(r"^main · (.* · )?idle$"))

    def is_dirty(self) -> bool:
        """Whether the notebook has changed since it was saved."""
        return self.page.evaluate(f"{_CONTEXT}.model.dirty")

    def dark(self) -> None:
        """Have the page dark."""
        self._theme("JupyterLab Dark", "false")

    def light(self) -> None:
        """Have the page light again."""
        self._theme("JupyterLab Light", "true")

    def _theme(self, name: str, is_light: str) -> None:
        execute = (
            "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})"
        )
        self.page.evaluate(execute, name)
        self.page.locator(f"body[data-jp-theme-light='{is_light}']").wait_for(state="attached")
        self.page.locator("#jupyterlab-splash").wait_for(state="detached")

"""A browser, and notebooks to open in it; every page must have been content at the end."""

from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.support.jupyter_server import JupyterServer
from tests.support.web_page import NotebookPage, chromium, pictures

from branchpoint_vmruntime.home import Home

OpenPage = Callable[[JupyterServer, str], NotebookPage]


@pytest.fixture(scope="module")
def browser(home: Home) -> Generator[Browser]:
    """Chromium, for one module: while it runs, this thread can run no other event loop."""
    assert home.database.exists()
    with chromium() as started:
        yield started


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Generator[OpenPage]:
    """Opens a notebook of a server at a route; a page may complain of nothing till the end."""
    opened: list[NotebookPage] = []
    context = browser.new_context(viewport={"width": 1300, "height": 1000})

    def open_at(server: JupyterServer, route: str) -> NotebookPage:
        notebook = NotebookPage(context.new_page(), pictures(tmp_path))
        opened.append(notebook)
        notebook.open(server, route)
        return notebook

    yield open_at
    complaints = [complaint for notebook in opened for complaint in notebook.complaints]
    context.close()
    assert complaints == []

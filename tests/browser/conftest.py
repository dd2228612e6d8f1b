"""A browser, JupyterLab, notebooks to open in it; every page must have been content at the end."""

import shutil
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext
from tests.support.jupyter_server import JupyterServer, jupyter_server
from tests.support.steering import Steering
from tests.support.web_page import (
    NotebookPage,
    chromium,
    pictures,
    write_notebook,
    write_settings,
)

from branchpoint_vmruntime.home import Home

OpenPage = Callable[[JupyterServer, str], NotebookPage]
Steer = Callable[..., Steering]


@pytest.fixture(scope="session")
def jupyterlab(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Generator[JupyterServer]:
    """A running JupyterLab; starting one takes longer than most that is done with it."""
    assert home.database.exists()
    exposed = "--LabApp.expose_app_in_browser=True"
    with jupyter_server("jupyterlab", tmp_path_factory.mktemp("lab"), exposed) as server:
        yield server


@pytest.fixture(scope="module")
def lab(jupyterlab: JupyterServer) -> Generator[JupyterServer]:
    """JupyterLab as if just started, but for other modules' files: name yours after the module."""
    write_settings(jupyterlab)
    yield jupyterlab
    left = [f"kernels/{it['id']}" for it in jupyterlab.ask("GET", "kernels").json()]
    with ThreadPoolExecutor() as pool:
        list(pool.map(partial(jupyterlab.ask, "DELETE"), left))
    assert jupyterlab.ask("GET", "kernels").json() == []
    shutil.rmtree(jupyterlab.settings)


@pytest.fixture(scope="module")
def browser(home: Home) -> Generator[Browser]:
    """Chromium, for one module: while it runs, this thread can run no other event loop."""
    assert home.database.exists()
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def context(browser: Browser) -> Generator[BrowserContext]:
    """What pages of a module share, as those of one user do: what was loaded once is there."""
    made = browser.new_context(viewport={"width": 1300, "height": 1000})
    yield made
    made.close()


@pytest.fixture
def open_page(context: BrowserContext, tmp_path: Path) -> Generator[OpenPage]:
    """Opens a notebook of a server at a route; a page may complain of nothing till the end."""
    opened: list[NotebookPage] = []

    def open_at(server: JupyterServer, route: str) -> NotebookPage:
        notebook = NotebookPage(context.new_page(), pictures(tmp_path))
        opened.append(notebook)
        notebook.open(server, route)
        return notebook

    yield open_at
    complaints = [complaint for notebook in opened for complaint in notebook.complaints]
    for notebook in opened:
        notebook.page.close()
    assert complaints == []


@pytest.fixture
def steer(lab: JupyterServer, open_page: OpenPage) -> Steer:
    """Opens a new notebook of those cells in JupyterLab, with the panel."""

    def steered(name: str, *codes: str) -> Steering:
        write_notebook(lab.folder / f"{name}.ipynb", *codes)
        steering = Steering(open_page(lab, f"lab/workspaces/{name}/tree/{name}.ipynb"))
        steering.show_panel()
        return steering

    return steered

"""In Notebook 7, in a real browser, Run All runs the quickstart."""

import shutil
from pathlib import Path

import pytest
from tests.browser.conftest import OpenPage
from tests.support.jupyter_server import jupyter_server
from tests.support.quickstart import QUICKSTART, assert_every_proof_held

pytestmark = [pytest.mark.vm, pytest.mark.browser]


def test_run_all_runs_the_quickstart(open_page: OpenPage, tmp_path: Path) -> None:
    exposed = "--JupyterNotebookApp.expose_app_in_browser=True"
    with jupyter_server("notebook", tmp_path, exposed) as server:
        stored = Path(shutil.copy(QUICKSTART, tmp_path / "quickstart.ipynb"))
        notebook = open_page(server, "notebooks/quickstart.ipynb")
        notebook.run_all()
        notebook.save(stored)
        assert_every_proof_held(stored)
        notebook.picture("notebook-quickstart")

"""One Jupyter server for all tests of its extension: over an empty home, or one with a session."""

import shutil
from collections.abc import Generator

import pytest
from tests.unit.lineage.facts import a_base, a_branch, a_checkpoint, a_session

from branchpoint_vmruntime.lineage.journal import Journal

pytest.importorskip("jupyter_server", reason="the extension needs a Jupyter server (extra: lab)")

from tests.unit.nbext.serving import Server, jupyter_server


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """A server that runs as long as there are tests."""
    with jupyter_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def server(started: Server) -> Generator[Server]:
    """The server over an empty home; what a test puts there is gone after it."""
    yield started
    for folder in (started.home.root, started.root):
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


@pytest.fixture
def journal(server: Server) -> Generator[Journal]:
    """The server's journal, with one session."""
    with Journal.open(server.home.database) as journal:
        journal.add_session(a_session())
        journal.add_checkpoint(a_base(), advance=None)
        journal.put_branch(a_branch())
        journal.add_checkpoint(a_checkpoint("loaded"), advance=a_branch().name)
        yield journal

"""A notebook that is renamed keeps its session: restarted, closed and opened again."""

import json
from pathlib import Path

import pytest
from tests.support.jupyter_server import JupyterServer, KernelSocket, jupyter_server
from tests.support.live_kernel import wait_until
from tests.vm.test_server_routes import PATIENCE_S, View, ask, session_of

from branchpoint_vmruntime.home import Home

pytestmark = pytest.mark.vm


def new_notebook(server: JupyterServer, path: str) -> None:
    content: View = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (server.folder / path).write_text(json.dumps(content))


def opened(server: JupyterServer, path: str) -> str:
    """The kernel of a notebook, as for a page that opens it."""
    wanted = {"name": Path(path).name, "path": path, "type": "notebook"}
    answer = server.ask("POST", "sessions", {**wanted, "kernel": {"name": "branchpoint"}})
    assert answer.status_code == 201, answer.text
    return answer.json()["kernel"]["id"]


def closed(server: JupyterServer) -> None:
    """Shut all kernels down."""
    for session in server.ask("GET", "sessions").json():
        assert server.ask("DELETE", f"sessions/{session['id']}").status_code == 204


def renamed(server: JupyterServer, old: str, new: str, session: str) -> None:
    """Rename something as nobody but the server knows of it, and wait until it is heard of."""
    assert server.ask("PATCH", f"contents/{old}", {"path": new}).status_code == 200

    def is_known() -> bool:
        view = ask(server, "GET", f"view?session={session}").json()
        return f"/{new}" in view["key"]

    assert wait_until(is_known, timeout_s=PATIENCE_S)


def said(shell: KernelSocket, code: str) -> str:
    """All that a cell shows."""
    request = shell.execute(code)
    shell.printed(request)
    return json.dumps([it["content"] for it in shell.of(request)], ensure_ascii=False)


def test_a_renamed_notebook_goes_back_to_what_it_saved_and_a_new_one_hears_nothing_of_it(
    home: Home, tmp_path: Path
) -> None:
    assert home.database.exists()
    with jupyter_server("jupyter_server", tmp_path) as server:
        new_notebook(server, "Untitled.ipynb")
        kernel = opened(server, "Untitled.ipynb")
        session = session_of(server, kernel)
        with server.connect(kernel) as shell:
            shell.run("x = 1")
            shell.run("%checkpoint loaded")
            renamed(server, "Untitled.ipynb", "model.ipynb", session)
            # Whoever has it open goes on.
            shell.run("x = 2")
            shell.run("%checkpoint later")
        assert server.ask("POST", f"kernels/{kernel}/restart").status_code == 200
        with server.connect(kernel) as shell:
            shell.run("%rollback loaded")
            assert shell.run("print(x)") == "1\n"
        assert session_of(server, kernel) == session
        closed(server)

        (tmp_path / "ideas").mkdir()
        renamed(server, "model.ipynb", "ideas/model.ipynb", session)
        renamed(server, "ideas", "plans", session)
        kernel = opened(server, "plans/model.ipynb")
        with server.connect(kernel) as shell:
            assert "was here before" in said(shell, "1")
            shell.run("%rollback later")
            assert shell.run("print(x)") == "2\n"

        new_notebook(server, "Untitled.ipynb")
        kernel = opened(server, "Untitled.ipynb")
        with server.connect(kernel) as shell:
            assert "here before" not in said(shell, "1")
        assert session_of(server, kernel) != session
        assert "Traceback" not in server.log

"""Adds our routes to a Jupyter server."""

from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import url_path_join

from branchpoint_nbext.routes import ROUTES


def _load_jupyter_server_extension(server: ServerApp) -> None:
    base = str(server.web_app.settings["base_url"])
    routes = [(url_path_join(base, path), handler) for path, handler in ROUTES]
    server.web_app.add_handlers(".*$", routes)


__all__ = ["_load_jupyter_server_extension"]

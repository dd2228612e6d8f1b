"""Where Jupyter finds the extension. Imports nothing of a server's until a server asks for it."""

from importlib import import_module
from typing import Any

_MODULE = "branchpoint_nbext.extension"


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": _MODULE, "app": import_module(_MODULE).BranchpointExtension}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    # Only `jupyter-builder develop` asks; a wheel installs the built files where JupyterLab looks.
    return [{"src": "../labextension", "dest": "branchpoint"}]


__all__ = ["_jupyter_labextension_paths", "_jupyter_server_extension_points"]

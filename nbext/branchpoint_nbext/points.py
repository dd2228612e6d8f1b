"""Where Jupyter finds the extension. Imports nothing, so that asking for it needs no server."""


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "branchpoint_nbext.extension"}]


__all__ = ["_jupyter_server_extension_points"]

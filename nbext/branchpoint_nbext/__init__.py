"""Routes for the Jupyter server: what every session is like, and what pages can do with it."""

from branchpoint_nbext.points import (
    _jupyter_labextension_paths,
    _jupyter_server_extension_points,
)

# Jupyter looks the hooks up by their names, underscore and all.
__all__ = ["_jupyter_labextension_paths", "_jupyter_server_extension_points"]

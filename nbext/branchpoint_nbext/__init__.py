"""Routes for the Jupyter server that show the lineage of every session. They only read."""

from branchpoint_nbext.points import _jupyter_server_extension_points

# Jupyter looks the hook up by its name, underscore and all.
__all__ = ["_jupyter_server_extension_points"]

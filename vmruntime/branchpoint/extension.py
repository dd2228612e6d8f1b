"""`%load_ext branchpoint`: the magics, also where there is no machine, to say so."""

import importlib
from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Make the magics known to IPython. In a machine they are already."""
    # Not at import: the package needs no IPython.
    importlib.import_module("branchpoint_guestkernel.magics").register(shell)

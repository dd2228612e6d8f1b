"""Has the Jupyter server wait until a kernel of ours has saved what another notebook gets back.

By itself it kills a kernel 5 s after it was asked to end. It tells of each that it starts, for
whichever of its routes.
"""

from typing import Any

# Longer than a kernel takes at the most: it ends by itself once it has tried to save for a minute.
WAIT_S = 65.0
STARTED = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"
_MODULE = "branchpoint_kernel"


class Patience:
    """Listens to what is done with the kernels of a server, `kernels`."""

    def __init__(self, kernels: Any) -> None:
        self._kernels = kernels

    async def heard(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        """One was started, or something else was done: those of ours are waited for."""
        del logger, schema_id
        kernel = data.get("kernel_id")
        if data.get("status") == "success" and kernel in self._kernels:
            manager = self._kernels.get_kernel(kernel)
            if is_ours(manager):
                # Whoever has set more means that.
                manager.shutdown_wait_time = max(manager.shutdown_wait_time, WAIT_S)


def is_ours(manager: Any) -> bool:
    """Whether a kernel is one of ours, whatever its kernelspec is called."""
    spec = getattr(manager, "kernel_spec", None)
    return _MODULE in (getattr(spec, "argv", None) or ())

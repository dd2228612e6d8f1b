"""Refuses pages' questions about widgets in silence while the kernel has not loaded any.

A page that is opened asks whether there are widgets. Without ipywidgets ipykernel refuses that too,
but says so as an error on the standard error of whichever cell runs next. ipywidgets, once it is
imported, puts its own answer in this one's place.
"""

from collections.abc import Callable
from typing import Any, Protocol

# https://github.com/jupyter-widgets/ipywidgets, packages/schema/messages.md
CONTROL = "jupyter.widget.control"


class Comm(Protocol):
    """What is used of a comm."""

    def close(self) -> None: ...


class CommManager(Protocol):
    """What is used of ipykernel's."""

    def register_target(self, target_name: str, f: Callable[[Comm, Any], None]) -> None: ...


def refuse_quietly(shell: Any) -> None:
    """Have it so in a shell whose kernel has comms; one of IPython alone has none."""
    comms: CommManager | None = getattr(getattr(shell, "kernel", None), "comm_manager", None)
    if comms is not None:
        comms.register_target(CONTROL, _refuse)


def _refuse(comm: Comm, _opened: Any) -> None:
    comm.close()

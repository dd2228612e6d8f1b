"""The widget of `%lineage`: what pages are told of it. Slow to import; see `lineage_host`."""
# ipywidgets and anywidget are untyped, and traitlets where it meets them.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUntypedBaseClass=false, reportUnknownVariableType=false

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import anywidget
from comm.base_comm import BaseComm
from ipywidgets import Layout
from ipywidgets._version import __protocol_version__
from traitlets import Dict, Unicode

from branchpoint_vmruntime.figures import Figures
from branchpoint_vmruntime.view_patches import patch_of

Hear = Callable[[object], None]

FRONT_END = Path(__file__).with_name("front_end") / "lineage.js"


class LineageWidget(anywidget.AnyWidget):
    """One session's lineage, in any number of places.

    `view` is a LineageView as JSON; `figures` what has become since of those that move by
    themselves. Pages change neither: what they ask for comes as messages of their own, and
    `on_asked` hears it.
    """

    _esm = Unicode().tag(sync=True)
    view = Dict().tag(sync=True)
    figures = Dict().tag(sync=True)

    def __init__(self, name: str, front_end: str, view: Mapping[str, Any], on_asked: Hear) -> None:
        """`name` is what its comms are called: of one session the same in every process."""
        self._is_patching = False
        layout = Layout(model_id=f"{name}-layout")
        super().__init__(model_id=name, layout=layout, _esm=front_end, view=dict(view))
        self._on_asked = on_asked
        self.on_msg(self._hear)

    def show(self, view: Mapping[str, Any], *, by_patches: bool = False) -> None:
        """Let pages show this from now on; `by_patches` tells that they know how to patch a view.

        Those that come later find all of it in the state.
        """
        was = self.view
        if not by_patches:
            with self.hold_sync():
                self.view = dict(view)
                self.figures = {}
            return
        self._is_patching = True
        try:
            self.view = dict(view)
        finally:
            self._is_patching = False
        if patch := patch_of(was, view):
            self.send({"patch": patch, "of": was["version"]})
        self.figures = {}

    def show_whole(self) -> None:
        """Tell all of the view once more, to a page that has missed what came before a patch."""
        self.send_state("view")

    def notify_change(self, change: Any) -> None:
        """Keep from pages what they are told by a patch."""
        if not (self._is_patching and change["name"] == "view"):
            super().notify_change(change)

    def show_figures(self, figures: Figures) -> None:
        """Let pages show the figures that move by themselves."""
        self.figures = dict(figures)

    def answer(self, content: Mapping[str, Any]) -> None:
        """Say something to every page that has it."""
        self.send(dict(content))

    def states(self) -> dict[str, Any]:
        """Its own and its layout's, as traits have them, by their comms' ids."""
        return {it.model_id: it.get_state() for it in (self, self.layout)}

    def open_again(self) -> None:
        """Open its comms in pages that may not have heard of them."""
        for each in (self.layout, self):
            comm = cast("BaseComm", each.comm)
            data: dict[str, Any] = {"state": each.get_state(), "buffer_paths": []}
            comm.open(data=data, metadata={"version": __protocol_version__})

    def end(self) -> None:
        """Let ipywidgets forget it."""
        for each in (self, self.layout):
            each.close()

    def set_state(self, sync_data: Mapping[str, Any]) -> None:
        """Take what pages change, which is nothing of what is told to all of them."""
        super().set_state({name: it for name, it in sync_data.items() if name not in _OURS})

    def _hear(self, _widget: object, content: object, _buffers: object) -> None:
        self._on_asked(content)


_OURS = frozenset({"_esm", "view", "figures"})

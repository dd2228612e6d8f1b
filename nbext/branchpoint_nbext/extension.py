"""Adds our routes to a Jupyter server, and ends what they have under way when it stops."""

from typing import Any

from jupyter_server.extension.application import ExtensionApp

from branchpoint_nbext.living import LIVE, Live
from branchpoint_nbext.patience import STARTED, Patience
from branchpoint_nbext.renames import RENAMED, Renames
from branchpoint_nbext.routes import ROUTES
from branchpoint_nbext.watching import Watching


class BranchpointExtension(ExtensionApp):
    """An ExtensionApp, because only those are told that the server stops."""

    name = "branchpoint_nbext"

    def initialize_settings(self) -> None:
        """What the handlers share."""
        self._live = Live(Watching())
        self.settings[LIVE] = self._live
        server: Any = self.serverapp
        patience = Patience(server.kernel_manager)
        server.event_logger.add_listener(schema_id=STARTED, listener=patience.heard)
        self._renames = Renames(server)
        server.event_logger.add_listener(schema_id=RENAMED, listener=self._renames.heard)

    def initialize_handlers(self) -> None:
        """Our routes, below the server's own base URL."""
        self.handlers.extend(ROUTES)

    async def stop_extension(self) -> None:
        """Return once every websocket of ours is closed and nothing is watched any more."""
        await self._renames.close()
        await self._live.close()


__all__ = ["BranchpointExtension"]

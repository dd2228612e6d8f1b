"""The conversation with QEMU's monitor: the few commands we need, by name."""

import asyncio
import contextlib
import socket
from pathlib import Path
from typing import Any

from qemu.qmp import QMPClient, QMPError

from branchpoint_vmruntime.errors import MachineError

_TIMEOUT_S = 30.0


class Monitor:
    """QMP over a socket made beforehand. Made by `connect`, ended by `close`."""

    def __init__(self, client: QMPClient) -> None:
        self._client = client

    @classmethod
    async def connect(cls, sock: socket.socket, *, name: str) -> "Monitor":
        """Greet QEMU on our end of the pair; takes the socket over."""
        client = QMPClient(name)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await client.connect(sock)
        except (QMPError, OSError, EOFError, TimeoutError) as error:
            raise MachineError(f"QEMU's monitor did not answer: {error}") from error
        return cls(client)

    async def stop(self) -> None:
        """Stop the vCPUs; when this returns the guest's memory no longer changes."""
        await self._ask("stop")

    async def resume(self) -> None:
        """Let the vCPUs run."""
        await self._ask("cont")

    async def save_devices(self, path: Path) -> None:
        """Write the state of every device, without the memory. The machine must be stopped."""
        await self._ask("xen-save-devices-state", filename=str(path), live=True)

    async def add_node(self, node: dict[str, Any]) -> None:
        """Open a block device node."""
        await self._ask("blockdev-add", **node)

    async def place_above(self, node: str, *, overlay: str) -> None:
        """Put `overlay`, an open node without backing, above `node`, which then is sealed."""
        await self._ask("blockdev-snapshot", node=node, overlay=overlay)

    async def status(self) -> str:
        """QEMU's run state, such as `running` or `paused`."""
        return str((await self._ask("query-status"))["status"])

    async def close(self) -> None:
        """End the conversation; QEMU may be gone already."""
        with contextlib.suppress(QMPError, OSError, EOFError, TimeoutError):
            async with asyncio.timeout(2.0):
                await self._client.disconnect()

    async def _ask(self, command: str, **arguments: Any) -> Any:
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await self._client.execute(command, arguments or None)
        except TimeoutError as error:
            raise MachineError(
                f"QEMU did not carry out {command!r} within {_TIMEOUT_S:g} s"
            ) from error
        except (QMPError, OSError, EOFError) as error:
            raise MachineError(f"QEMU did not carry out {command!r}: {error}") from error

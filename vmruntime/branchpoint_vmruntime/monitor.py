"""The conversation with QEMU's monitor: the few commands we need, by name."""

import asyncio
import contextlib
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from qemu.qmp import EventListener, QMPClient, QMPError

from branchpoint_vmruntime.errors import MachineError

_TIMEOUT_S = 30.0


class Monitor:
    """QMP over a socket made beforehand. Made by `connect`, ended by `close`."""

    def __init__(self, client: QMPClient) -> None:
        self._client = client
        self._last_stop: EventListener | None = None
        self._held = False
        self._disk_errors = EventListener("BLOCK_IO_ERROR")
        client.register_listener(self._disk_errors)

    @classmethod
    async def connect(cls, sock: socket.socket, *, name: str) -> "Monitor":
        """Greet QEMU on our end of the pair; takes the socket over."""
        client = QMPClient(name)
        monitor = cls(client)
        # A machine may tell of an event, such as that it runs, before its answer to the greeting:
        # qemu.qmp takes that for the answer, unless it reads along already.
        client.negotiate = False
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await client.connect(sock)
                await client.execute("qmp_capabilities")
        except (QMPError, OSError, EOFError, TimeoutError, AssertionError) as error:
            # qemu.qmp 0.0.6 asserts its own state where QEMU ends while it is being greeted.
            await monitor.close()
            raise MachineError(f"QEMU's monitor did not answer: {error}") from error
        return monitor

    async def stop(self) -> None:
        """Stop the vCPUs; when this returns the guest's memory no longer changes."""
        if self._last_stop is not None:
            self._client.remove_listener(self._last_stop)
        self._held = True
        self._last_stop = EventListener(("STOP", "RESUME"))
        self._client.register_listener(self._last_stop)
        await self._ask("stop")

    async def resume(self) -> None:
        """Let the vCPUs run."""
        self._held = False
        await self._ask("cont")

    def stopped_ms(self) -> float:
        """How long the vCPUs stood still the last time, by QEMU's own clock; 0 if they still do."""
        at_ms: dict[str, float] = {}
        for event in self._last_stop.history if self._last_stop else ():
            at_ms[str(event["event"])] = _timestamp_ms(event)
        if "STOP" not in at_ms or at_ms.get("RESUME", 0.0) < at_ms["STOP"]:
            return 0.0
        return at_ms["RESUME"] - at_ms["STOP"]

    async def save_devices(self, path: Path) -> None:
        """Write the state of every device, without the memory. The machine must be stopped."""
        await self._ask("xen-save-devices-state", filename=str(path), live=True)

    async def load_devices(self, path: Path) -> None:
        """Load device state into a machine that stands by; it runs as soon as that is done."""
        with path.open("rb") as state:
            await self._give("state", state.fileno())
        await self._ask("migrate-incoming", uri="fd:state")

    async def migrate_to(self, path: Path) -> None:
        """Write all of a machine, memory too, as stock QEMU does: what ours is measured against."""
        with path.open("wb") as file:
            await self._give("target", file.fileno())
        await self._ask("migrate", uri="fd:target")
        while (state := (await self._ask("query-migrate"))["status"]) != "completed":
            if state in ("failed", "cancelled"):
                raise MachineError(f"QEMU's migration {state}")
            await asyncio.sleep(0.001)

    async def human(self, line: str) -> str:
        """A command that only QEMU's human monitor has."""
        return str(await self._ask("human-monitor-command", **{"command-line": line}))

    async def add_node(self, node: dict[str, Any]) -> None:
        """Open a block device node."""
        await self._ask("blockdev-add", **node)

    async def remove_node(self, node: str) -> None:
        """Close a block device node that nothing uses."""
        await self._ask("blockdev-del", **{"node-name": node})

    async def place_above(self, node: str, *, overlay: str) -> None:
        """Put `overlay`, an open node without backing, above `node`, which then is sealed."""
        await self._ask("blockdev-snapshot", node=node, overlay=overlay)

    async def status(self) -> str:
        """QEMU's run state, such as `running` or `paused`."""
        return str((await self._ask("query-status"))["status"])

    async def wait_running(self) -> None:
        """Wait until the machine runs: loaded, or let go on. Polls, as there is no event for it."""
        while await self.status() != "running":  # noqa: ASYNC110
            await asyncio.sleep(0.0003)

    async def wait_stopped_for_space(self) -> None:
        """Wait until QEMU has stopped the machine because its disk could not be written."""
        while True:
            event = await self._disk_errors.get()
            data = cast("dict[str, Any]", event["data"])
            if data.get("nospace") and data["action"] == "stop":
                return

    async def retry_writes(self) -> None:
        """Let a machine go on that stopped because of its disk, unless we keep it stopped."""
        self._disk_errors.clear()
        if await self.status() == "io-error" and not self._held:
            await self._ask("cont")

    async def close(self) -> None:
        """End the conversation; QEMU may be gone already."""
        with contextlib.suppress(QMPError, OSError, EOFError, TimeoutError):
            async with asyncio.timeout(2.0):
                await self._client.disconnect()

    async def _give(self, name: str, fd: int) -> None:
        """Hand QEMU an open file under a name."""
        try:
            self._client.send_fd_scm(fd)
        except (QMPError, OSError, AssertionError) as error:
            # qemu.qmp 0.0.6 asserts that it is connected, and lets the socket's errors through.
            raise MachineError(f"QEMU did not take the file {name!r}: {error}") from error
        await self._ask("getfd", fdname=name)

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


def _timestamp_ms(event: Mapping[str, Any]) -> float:
    stamp = event["timestamp"]
    return 1000.0 * stamp["seconds"] + stamp["microseconds"] / 1000

"""A QEMU monitor without a QEMU: greets, and carries out every command as told."""

import asyncio
import json
import socket
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

GREETING: dict[str, Any] = {
    "QMP": {"version": {"qemu": {"major": 10, "minor": 0, "micro": 0}}, "capabilities": []}
}


class FakeMonitor:
    """Answers every command with `{}`, or with what `returns` or `errors` has for it.

    Of several returns each is given once, the last for ever. What is in `silent` is never
    answered, what is in `holds` once that is set; `reached` tells that a command has arrived.
    `early` are events it tells of before its first answer.
    """

    def __init__(self) -> None:
        self.returns: dict[str, list[Any]] = {"query-status": [{"status": "running"}]}
        self.errors: dict[str, str] = {}
        self.silent: set[str] = set()
        self.early: list[str] = []
        self.holds: dict[str, asyncio.Event] = {}
        self.reached: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._held: set[asyncio.Task[None]] = set()
        self.commands: list[tuple[str, dict[str, Any]]] = []

    async def serve(self, sock: socket.socket) -> None:
        """Speak QMP until the other end is closed."""
        reader, self._writer = await asyncio.open_connection(sock=sock)
        try:
            self._say(GREETING)
            waiting = ""
            while data := await reader.read(1 << 16):
                commands, waiting = _cut(waiting + data.decode())
                for command in commands:
                    self._carry_out(command)
        finally:
            self._writer.close()

    def event(self, name: str, at_s: float) -> None:
        """An event of QEMU's, with its time."""
        seconds = int(at_s)
        stamp = {"seconds": seconds, "microseconds": round(1e6 * (at_s - seconds))}
        self._say({"event": name, "timestamp": stamp})

    def _carry_out(self, command: dict[str, Any]) -> None:
        name = command["execute"]
        if name == "qmp_capabilities":
            for event in self.early:
                self.event(event, 0.0)
        else:
            self.commands.append((name, command.get("arguments", {})))
        self.reached[name].set()
        if name not in self.silent:
            self._held.add(asyncio.create_task(self._answer(name, command)))

    async def _answer(self, name: str, command: dict[str, Any]) -> None:
        if name in self.holds:
            await self.holds[name].wait()
        # The first command of a conversation has no id.
        number = {"id": command["id"]} if "id" in command else {}
        if name in self.errors:
            error = {"class": "GenericError", "desc": self.errors[name]}
            self._say({"error": error, **number})
            return
        if name == "xen-save-devices-state":
            Path(command["arguments"]["filename"]).write_bytes(b"devices")  # noqa: ASYNC240
        values = self.returns.get(name, [{}])
        value = values.pop(0) if len(values) > 1 else values[0]
        self._say({"return": value, **number})

    def _say(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")


def _cut(text: str) -> tuple[list[dict[str, Any]], str]:
    """Every whole command, and the rest: QEMU needs nothing between two of them."""
    found: list[dict[str, Any]] = []
    while text := text.lstrip():
        try:
            command, end = json.JSONDecoder().raw_decode(text)
        except ValueError:
            break
        found.append(command)
        text = text[end:]
    return found, text


@asynccontextmanager
async def fake_monitor(sock: socket.socket) -> AsyncGenerator[FakeMonitor]:
    """A monitor on its end of a pair."""
    monitor = FakeMonitor()
    serving = asyncio.create_task(monitor.serve(sock))
    try:
        yield monitor
    finally:
        serving.cancel()
        await asyncio.wait([serving])

"""Starts QEMU with its ports, and takes the conversations with what is in it up."""

import shutil
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from branchpoint_vmruntime.command_line import command_line
from branchpoint_vmruntime.errors import MachineStartError
from branchpoint_vmruntime.incarnation import Identity
from branchpoint_vmruntime.machine import Machine
from branchpoint_vmruntime.process import QemuProcess
from branchpoint_vmruntime.spec import MachineSpec, Port

# The names by which the guest finds them, in the order in which `Machine.connect` takes them.
PORTS = ("control", "kernel", "streams")


@asynccontextmanager
async def launch(
    make_spec: Callable[[int, tuple[Port, ...]], MachineSpec],
    folder: Path,
    identity: Identity,
    *,
    inherit: Sequence[int] = (),
) -> AsyncGenerator[Machine]:
    """Start QEMU in a folder of its own and end it, folder and all, on leaving.

    `make_spec` is given the monitor's descriptor and the ports; `inherit` are descriptors the spec
    names.
    """
    pairs = [socket.socketpair() for _ in ("monitor", *PORTS)]
    ours = [pair[0] for pair in pairs]
    theirs = [pair[1] for pair in pairs]
    try:
        fds = [sock.fileno() for sock in theirs]
        ports = tuple(Port(name=name, fd=fd) for name, fd in zip(PORTS, fds[1:], strict=True))
        spec = make_spec(fds[0], ports)
        process = QemuProcess.start(
            command_line(spec), pass_fds=[*fds, *inherit], log=folder / "qemu.log"
        )
    except OSError as error:
        for sock in ours:
            sock.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise MachineStartError(f"QEMU could not be started: {error}") from error
    finally:
        for sock in theirs:
            sock.close()
    machine = Machine(spec, folder, process, identity)
    try:
        await _converse(machine, ours)
        yield machine
    finally:
        await machine.close()
        shutil.rmtree(folder, ignore_errors=True)


async def _converse(machine: Machine, sockets: Sequence[socket.socket]) -> None:
    for sock in sockets:
        sock.setblocking(False)  # noqa: FBT003
    try:
        await machine.connect(*sockets)
    except BaseException:
        await machine.close()
        # Called off halfway, some of them have nobody yet to close them.
        for sock in sockets:
            sock.close()
        raise

"""SOCKS5 as programs in a machine speak it to the proxy: connections only, no users."""

import contextlib
from ipaddress import ip_address

from socksio.socks5 import SOCKS5AType, SOCKS5AuthMethod, SOCKS5Command, SOCKS5ReplyCode

from branchpoint_vmruntime.errors import (
    OutsideError,
    RefusedError,
    StorageError,
    StreamResetError,
    UsageError,
)
from branchpoint_vmruntime.ledger import EntryKind
from branchpoint_vmruntime.outside.account import Account
from branchpoint_vmruntime.outside.names import canonical_host
from branchpoint_vmruntime.outside.tunnel import Tunnels
from branchpoint_vmruntime.outside.wire import Unread, part

VERSION = 5
_NOWHERE = b"\x00\x01" + bytes(6)
_HOW = "SOCKS"


async def serve_socks(wire: Unread, account: Account, tunnels: Tunnels) -> None:
    """Serve one connection to its end. MachineError if it is cut off."""
    greeted = False

    async def greet() -> Unread:
        nonlocal greeted
        greeted = True
        await _reply(wire, SOCKS5ReplyCode.SUCCEEDED)
        return wire

    try:
        host, port = await _negotiate(wire)
        await tunnels.run(host, port, _HOW, greet)
    except UsageError as error:
        account.refused(EntryKind.TUNNEL, _HOW, "", str(error))
    except RefusedError:
        await _reply(wire, SOCKS5ReplyCode.CONNECTION_NOT_ALLOWED_BY_RULESET)
    except (OutsideError, StorageError) as error:
        if greeted:
            raise StreamResetError(str(error)) from error
        await _reply(wire, SOCKS5ReplyCode.HOST_UNREACHABLE)
    await part(wire)


async def _negotiate(wire: Unread) -> tuple[str, int]:
    """Where it is to go. UsageError, and it has been told so, if that cannot be."""
    _, count = await wire.exactly(2)
    methods = await wire.exactly(count)
    if SOCKS5AuthMethod.NO_AUTH_REQUIRED.value not in methods:
        await wire.write(bytes([VERSION]) + SOCKS5AuthMethod.NO_ACCEPTABLE_METHODS)
        raise UsageError("a SOCKS client wants to give a user, and there are none")
    await wire.write(bytes([VERSION]) + SOCKS5AuthMethod.NO_AUTH_REQUIRED)
    version, command, _, kind = await wire.exactly(4)
    if version != VERSION:
        raise UsageError("what follows a SOCKS5 greeting is of another version")
    text = await _address(wire, bytes([kind]))
    port = int.from_bytes(await wire.exactly(2), "big")
    if bytes([command]) != SOCKS5Command.CONNECT:
        await _reply(wire, SOCKS5ReplyCode.COMMAND_NOT_SUPPORTED)
        raise UsageError("a SOCKS client asks for more than a connection")
    with contextlib.suppress(UsageError):
        if port:
            return canonical_host(text), port
    await _reply(wire, SOCKS5ReplyCode.ADDRESS_TYPE_NOT_SUPPORTED)
    raise UsageError(f"a SOCKS client names what is no host: {text[:80]!r} port {port}")


async def _address(wire: Unread, kind: bytes) -> str:
    match kind:
        case SOCKS5AType.IPV4_ADDRESS:
            return str(ip_address(await wire.exactly(4)))
        case SOCKS5AType.IPV6_ADDRESS:
            return str(ip_address(await wire.exactly(16)))
        case SOCKS5AType.DOMAIN_NAME:
            (length,) = await wire.exactly(1)
            return (await wire.exactly(length)).decode("utf-8", "replace")
        case _:
            await _reply(wire, SOCKS5ReplyCode.ADDRESS_TYPE_NOT_SUPPORTED)
            raise UsageError("a SOCKS client names a host in a way that is not known")


async def _reply(wire: Unread, code: SOCKS5ReplyCode) -> None:
    await wire.write(bytes([VERSION]) + code + _NOWHERE)

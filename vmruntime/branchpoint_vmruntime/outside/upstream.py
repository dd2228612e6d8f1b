"""Connections from the host to servers, for machines: every address is checked, and then used."""

import asyncio
import base64
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment

from branchpoint_vmruntime.errors import OutsideError, RefusedError
from branchpoint_vmruntime.outside.facts import WEB_PORTS, Rule
from branchpoint_vmruntime.outside.names import address_of, with_port
from branchpoint_vmruntime.outside.wire import SocketWire

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]
CONNECT_TIMEOUT_S = 15.0
# What machines call the computer they run on, since `localhost` is themselves. The top-level domain
# is reserved for private use (ICANN, 2024).
THIS_COMPUTER = "host.internal"
_LOOPBACK = (ip_address("127.0.0.1"), ip_address("::1"))
# Their own, so that a resolver that does not answer holds up nothing else of the host's.
_RESOLVERS = ThreadPoolExecutor(max_workers=4, thread_name_prefix="resolver")
_NAT64 = ip_network("64:ff9b::/96")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How a host is reached: at addresses that were checked, or through a proxy of the host's."""

    host: str
    port: int
    addresses: tuple[Address, ...]
    proxy: str | None = field(default=None, repr=False)


async def resolve(host: str, port: int) -> Sequence[Address]:
    """The addresses of a name as the host's resolver gives them; OSError if it has none."""
    look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_RESOLVERS, look_up)
    texts = (str(entry[4][0]).partition("%")[0] for entry in found)
    return tuple(dict.fromkeys(ip_address(text) for text in texts))


class Upstream:
    """Opens connections to servers. `trust` is whom it believes a server's certificate.

    `proxies` are those of the host, by scheme and "no", as its environment names them.
    """

    def __init__(
        self,
        *,
        trust: ssl.SSLContext,
        resolve: Resolve = resolve,
        proxies: Mapping[str, str] | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        self._trust = trust
        self._resolve = resolve
        self._proxies = dict(getproxies_environment() if proxies is None else proxies)
        self._connect_timeout_s = connect_timeout_s

    async def find(self, rule: Rule, host: str, port: int) -> Route:
        """The way to a host that `rule` allows; nothing is sent to it yet.

        RefusedError if its name leads to the host itself or a private network, OutsideError in
        words if it leads nowhere.
        """
        proxy = self._proxy_for(host, port)
        addresses: Sequence[Address] = ()
        with self._in_words(with_port(host, port)):
            async with asyncio.timeout(self._connect_timeout_s):
                try:
                    addresses = await self._addresses(host, port)
                except OSError:
                    # Behind a proxy names need not be known here.
                    if proxy is None:
                        raise
        check(rule, host, addresses)
        return Route(host=host, port=port, addresses=tuple(addresses), proxy=proxy)

    async def connect(self, route: Route, *, tls: bool = False) -> SocketWire:
        """A connection by that way; OutsideError in words."""
        with self._in_words(with_port(route.host, route.port)):
            async with asyncio.timeout(self._connect_timeout_s):
                if route.proxy is not None:
                    return await self._through(route.proxy, route.host, route.port, tls=tls)
                return await self._first(route.addresses, route.host, route.port, tls=tls)

    @contextlib.contextmanager
    def _in_words(self, name: str) -> Generator[None]:
        try:
            yield
        except TimeoutError as error:
            words = f"{name} did not answer within {self._connect_timeout_s:g} s"
            raise OutsideError(words) from error
        except ssl.SSLCertVerificationError as error:
            words = f"the certificate of {name} is not trusted here: {error.verify_message}"
            raise OutsideError(words) from error
        except ssl.SSLError as error:
            raise OutsideError(f"no TLS with {name}: {error.reason}") from error
        except OSError as error:
            raise OutsideError(f"{name} cannot be reached: {error.strerror or error}") from error

    async def _addresses(self, host: str, port: int) -> Sequence[Address]:
        if host == THIS_COMPUTER:
            return _LOOPBACK
        literal = address_of(host)
        return [literal] if literal is not None else await self._resolve(host, port)

    async def _first(
        self, addresses: Sequence[Address], host: str, port: int, *, tls: bool
    ) -> SocketWire:
        failure: OSError = OSError("it has no address")
        for address in addresses:
            try:
                reader, writer = await asyncio.open_connection(
                    str(address),
                    port,
                    ssl=self._trust if tls else None,
                    server_hostname=host if tls else None,
                )
            except ssl.SSLError:
                raise
            except OSError as error:
                failure = error
                continue
            return SocketWire(reader, writer, with_port(host, port))
        raise failure

    def _proxy_for(self, host: str, port: int) -> str | None:
        if (
            host == THIS_COMPUTER
            or not self._proxies
            or _goes_direct(host, port, self._proxies.get("no", ""))
        ):
            return None
        scheme = "http" if port == WEB_PORTS[0] else "https"
        return self._proxies.get(scheme) or self._proxies.get("all")

    async def _through(self, proxy: str, host: str, port: int, *, tls: bool) -> SocketWire:
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        if parts.scheme != "http" or parts.hostname is None:
            raise OutsideError(
                f"the host's proxy is of the kind {parts.scheme!r}, which is not known here",
                hint="set HTTPS_PROXY to an http:// proxy where the kernel is started",
            )
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
        try:
            await _ask_proxy(reader, writer, with_port(host, port), parts.username, parts.password)
            if tls:
                await writer.start_tls(self._trust, server_hostname=host)
        except BaseException:
            writer.transport.abort()
            raise
        return SocketWire(reader, writer, with_port(host, port))


def check(rule: Rule, host: str, addresses: Sequence[Address]) -> None:
    """RefusedError if an address is not of the outside world, unless the rule names it."""
    if rule.private:
        return
    for address in addresses:
        if rule.host != str(address) and (kind := _kind(address)):
            leads = "is" if host == str(address) else f"leads to {address},"
            raise RefusedError(
                f"{host} {leads} {kind}",
                hint=f"%egress allow {_as_typed(rule)} --private",
            )


def _as_typed(rule: Rule) -> str:
    if rule.ports == WEB_PORTS:
        return f"[{rule.host}]" if ":" in rule.host else rule.host
    return " ".join(with_port(rule.host, port) for port in rule.ports)


def _kind(address: Address) -> str:
    """What an address is if not one of the outside world."""
    if isinstance(address, IPv6Address):
        if inner := _embedded(address):
            return _kind(inner)
        if address.scope_id is not None or address.is_site_local:
            return "an address of a local network"
    if address.is_loopback or address.is_unspecified or _is_own(address):
        return "an address of the host itself"
    if not address.is_global or address.is_multicast or address.is_reserved:
        return "an address of a private network"
    return ""


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """The older address that a router or the system would send to in its place."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _is_own(address: Address) -> bool:
    """Only what is an address of one of the host's interfaces can be bound."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


def _goes_direct(host: str, port: int, excepted: str) -> bool:
    """Whether the host's environment takes it from what goes through its proxy."""
    for word in (word.strip().lower().lstrip(".") for word in excepted.split(",")):
        if word == "*" or (word and word in (host, with_port(host, port))):
            return True
        if word and host.endswith(f".{word}"):
            return True
    return False


async def _ask_proxy(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    name: str,
    user: str | None,
    password: str | None,
) -> None:
    lines = [f"CONNECT {name} HTTP/1.1", f"Host: {name}"]
    if user is not None:
        pair = f"{unquote(user)}:{unquote(password or '')}"
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}")
    writer.write("\r\n".join([*lines, "", ""]).encode())
    await writer.drain()
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise OutsideError(
            f"the host's proxy gave no answer that makes sense for {name}"
        ) from error
    words = head[:200].split(b"\r\n", 1)[0].split(b" ", 2)
    if len(words) < 2 or not words[1].startswith(b"2"):
        status = b" ".join(words[1:]).decode("latin-1")
        raise OutsideError(f"the host's proxy does not connect to {name}: {status}")

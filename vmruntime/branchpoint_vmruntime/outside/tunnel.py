"""Connections that are passed on unread, and those to hosts that must be looked into."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from branchpoint_vmruntime.errors import MachineError, OutsideError, RefusedError
from branchpoint_vmruntime.ledger import EntryKind
from branchpoint_vmruntime.outside.account import Account
from branchpoint_vmruntime.outside.facts import HTTPS_PORT, Rule
from branchpoint_vmruntime.outside.head import Origin
from branchpoint_vmruntime.outside.masking import Mask
from branchpoint_vmruntime.outside.names import with_port
from branchpoint_vmruntime.outside.passage import Counted, Passage
from branchpoint_vmruntime.outside.renewal import Renewable
from branchpoint_vmruntime.outside.seams import Patience, Tools
from branchpoint_vmruntime.outside.tasks import at_most_idle, together
from branchpoint_vmruntime.outside.upstream import Route, check
from branchpoint_vmruntime.outside.wire import TlsWire, Unread, Wire, part, within

ServeHttp = Callable[[Wire, Origin], Awaitable[None]]
_TLS_HANDSHAKE = 0x16


class Tunnels:
    """Carries one machine's connections. `serve_http` takes over those that are looked into."""

    def __init__(self, tools: Tools, account: Account, serve_http: ServeHttp) -> None:
        self._tools = tools
        self._account = account
        self._serve_http = serve_http

    async def run(
        self, host: str, port: int, how: str, greet: Callable[[], Awaitable[Unread]]
    ) -> None:
        """Carry a connection to its end. `greet` tells the program that it is there.

        Before that, RefusedError or OutsideError, as the ledger tells; StorageError if it cannot.
        Either side may then be cut off: OutsideError, MachineError.
        """
        branch = self._account.who.branch
        url = with_port(host, port)
        try:
            rule = self._tools.policies.judge(branch, host, port, None)
            if self._must_be_opened(rule, url):
                await self._look_into(await greet(), host, port)
                return
            await self._carry(rule, host, port, how, greet)
        except RefusedError as error:
            self._account.refused(EntryKind.TUNNEL, how, url, str(error))
            raise

    def _must_be_opened(self, rule: Rule, url: str) -> bool:
        return rule.inspect or bool(rule.methods) or self._tools.vault.needs(url)

    async def _carry(
        self,
        rule: Rule,
        host: str,
        port: int,
        how: str,
        greet: Callable[[], Awaitable[Unread]],
    ) -> None:
        draft = self._account.draft(EntryKind.TUNNEL, how, with_port(host, port))
        passage = Passage(safe=False, kind=EntryKind.TUNNEL)
        try:
            route = await self._tools.upstream.find(rule, host, port)
            self._judge_anew(route)
        except RefusedError:
            raise
        except OutsideError as error:
            self._account.failed(draft, passage, error)
            raise
        branch = self._account.who.branch
        with (
            self._account.entry(draft, passage),
            self._tools.crossings.open(branch, host, port, passage),
        ):
            server = await self._tools.upstream.connect(route)
            # A server of HTTPS waits for the program to begin, and some not for long.
            again = partial(self._tools.upstream.connect, route) if port == HTTPS_PORT else None
            try:
                await carry(await greet(), server, passage, self._tools.patience, again=again)
            finally:
                await server.close()

    def _judge_anew(self, route: Route) -> None:
        """A name may take long to be found; by then something else may hold. RefusedError."""
        branch = self._account.who.branch
        rule = self._tools.policies.judge(branch, route.host, route.port, None)
        check(rule, route.host, route.addresses)
        if self._must_be_opened(rule, with_port(route.host, route.port)):
            raise RefusedError("what holds for it has changed just now: try again")

    async def _look_into(self, program: Unread, host: str, port: int) -> None:
        url = with_port(host, port)
        first = await within(self._tools.patience.hello_s, program.peek())
        if first[:1] == bytes([_TLS_HANDSHAKE]):
            context = self._tools.authority.server_context(host)
            draft = self._account.draft(EntryKind.TUNNEL, "CONNECT", url)
            try:
                accepting = TlsWire.accept(program, context)
                opened = await within(self._tools.patience.hello_s, accepting)
            except MachineError as error:
                passage = Passage(safe=False, kind=EntryKind.TUNNEL)
                self._account.failed(draft, passage, error)
                raise
            await self._serve_http(opened, Origin("https", host, port))
        elif first[:1].isalpha():
            await self._serve_http(program, Origin("http", host, port))
        elif first:
            words = (
                f"what was sent to {url} is neither TLS nor HTTP, and must be seen to be let out"
            )
            self._account.refused(EntryKind.TUNNEL, "CONNECT", url, words)
        await part(program)


async def carry(
    program: Wire,
    server: Wire,
    passage: Passage,
    patience: Patience,
    *,
    again: Callable[[], Awaitable[Wire]] | None = None,
) -> None:
    """Pass bytes both ways until both sides are done.

    `again` connects once more, if the server gives up before anything was said.
    OutsideError, also if nothing passes for too long; MachineError.
    """
    try:
        async with at_most_idle(patience.idle_s) as moved:
            counted = Counted(server, passage, moved)
            if again is None:
                await both_ways(program, counted)
                return

            async def anew() -> Wire:
                return Counted(await again(), passage, moved)

            renewable = Renewable(counted, anew, patience_s=patience.hello_s)
            try:
                await both_ways(program, renewable)
            finally:
                await renewable.close()
    except TimeoutError as error:
        raise OutsideError(f"nothing passed for {patience.idle_s:g} s") from error


async def both_ways(program: Wire, server: Wire, *, masks: Sequence[bytes] = ()) -> None:
    """Pass bytes until both sides are done; the program is given none of `masks`."""
    await together(_outward(program, server), _inward(server, program, masks))


async def _outward(program: Wire, server: Wire) -> None:
    while data := await program.read():
        await server.write(data)
    await server.finish()


async def _inward(server: Wire, program: Wire, masks: Sequence[bytes]) -> None:
    mask = Mask(masks)
    while data := await server.read():
        if shown := mask.feed(data) if masks else data:
            await program.write(shown)
    if rest := mask.flush():
        await program.write(rest)
    await program.finish()

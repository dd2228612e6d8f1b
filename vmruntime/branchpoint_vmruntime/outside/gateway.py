"""Where everything that a machine sends outside comes by, and is judged, recorded and let out."""

import asyncio
import logging
from collections.abc import Sequence

from branchpoint_vmruntime.errors import BranchpointError, MachineError
from branchpoint_vmruntime.outside.account import Account
from branchpoint_vmruntime.outside.authority import Authority
from branchpoint_vmruntime.outside.crossings import Crossings
from branchpoint_vmruntime.outside.facts import Who
from branchpoint_vmruntime.outside.http_proxy import HttpProxy
from branchpoint_vmruntime.outside.policy import Policies
from branchpoint_vmruntime.outside.registries import Group
from branchpoint_vmruntime.outside.room import Room
from branchpoint_vmruntime.outside.seams import (
    Book,
    Counting,
    Desk,
    Injector,
    Patience,
    Purse,
    Tools,
)
from branchpoint_vmruntime.outside.socks import VERSION, serve_socks
from branchpoint_vmruntime.outside.tasks import Lasting
from branchpoint_vmruntime.outside.upstream import Upstream
from branchpoint_vmruntime.outside.wire import Unread, within
from branchpoint_vmruntime.streams import Stream, StreamChannel

log = logging.getLogger(__name__)

PURPOSE = "egress"
# Of one machine. Each takes a file descriptor of the host process.
MOST_STREAMS = 256
# Bodies and replies of all requests under keys that are under way, together.
MOST_HELD_BYTES = 256 << 20
# Calls of models under a budget, which can be so many calls beyond it.
MOST_COUNTED_AT_ONCE = 8


class Gateway:
    """A session's way out, for all its machines. To be closed when they have ended.

    A request under a key outlives its machine, so that its outcome is known.
    """

    def __init__(
        self,
        *,
        policies: Policies,
        ledger: Book,
        replay: Desk,
        vault: Injector,
        metering: Counting,
        authority: Authority,
        upstream: Upstream,
        limits: Purse,
        patience: Patience | None = None,
    ) -> None:
        self._lent: dict[tuple[str, str, str, int], bytes] = {}
        self._lasting = Lasting()
        self._tools = Tools(
            policies=policies,
            ledger=ledger,
            replay=replay,
            vault=vault,
            metering=metering,
            authority=authority,
            upstream=upstream,
            limits=limits,
            patience=patience or Patience(),
            crossings=Crossings(),
            lasting=self._lasting,
            room=Room(MOST_HELD_BYTES),
            turns=asyncio.Semaphore(MOST_COUNTED_AT_ONCE),
            lent=self._lent,
        )

    def lend(self, groups: Sequence[Group]) -> None:
        """Send the credentials of groups with requests that are let out as theirs."""
        for group in groups:
            for one in group.credentials:
                self._lent[group.name, one.scheme, one.host, one.port] = one.basic

    def reconsider(self, branch: str) -> None:
        """End the branch's connections that its rules, having changed, do not let out any more."""
        self._tools.crossings.reconsider(self._tools.policies, branch)

    async def close(self) -> None:
        """Cut off the requests that outlived their machines: their outcome is unknown."""
        await self._lasting.close()

    async def serve(self, channel: StreamChannel, who: Who) -> None:
        """Serve what a machine opens until its channel ends. Never fails for what a peer does."""
        room = asyncio.Semaphore(MOST_STREAMS)
        account = Account(self._tools.ledger, who)
        serving: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as streams:
            while True:
                await room.acquire()
                try:
                    stream = await channel.accept()
                except MachineError:
                    break
                task = streams.create_task(self._serve(stream, account))
                serving.add(task)
                task.add_done_callback(serving.discard)
                task.add_done_callback(lambda _: room.release())
            for task in serving:
                task.cancel()

    async def _serve(self, stream: Stream, account: Account) -> None:
        try:
            if tuple(stream.purpose) == (PURPOSE,):
                await self._serve_egress(Unread(stream), account)
        except BranchpointError as error:
            log.debug("a connection of %s ended: %s", account.who.branch, error)
        except Exception:
            log.exception("a connection of branch %r could not be served", account.who.branch)
        finally:
            await stream.close()

    async def _serve_egress(self, wire: Unread, account: Account) -> None:
        proxy = HttpProxy(self._tools, account)
        first = await within(self._tools.patience.idle_s, wire.peek())
        if first[:1] == bytes([VERSION]):
            await serve_socks(wire, account, proxy.tunnels)
        elif first:
            await proxy.serve(wire)

"""One request of a machine's, seen whole: judged, sent on with what belongs to it, answered."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial

import h11

from branchpoint_vmruntime.errors import (
    DamagedError,
    MachineError,
    OutsideError,
    RefusedError,
    StorageError,
    StreamResetError,
)
from branchpoint_vmruntime.ledger import EntryKind
from branchpoint_vmruntime.ledger.replay import Go, RecordedReply, Refuse, Replay
from branchpoint_vmruntime.outside.account import LONGEST_URL, Account
from branchpoint_vmruntime.outside.answers import TEXT, Answer, answer_to
from branchpoint_vmruntime.outside.facts import HTTPS_PORT, Rule
from branchpoint_vmruntime.outside.head import Head, end_to_end, length_of
from branchpoint_vmruntime.outside.http_side import ClientSide, ServerSide
from branchpoint_vmruntime.outside.injection import lent_masks
from branchpoint_vmruntime.outside.names import with_port
from branchpoint_vmruntime.outside.passage import SAFE_METHODS, Passage
from branchpoint_vmruntime.outside.replies import Keeping, Screen
from branchpoint_vmruntime.outside.room import Share
from branchpoint_vmruntime.outside.seams import Counter, Tools
from branchpoint_vmruntime.outside.tasks import alongside, at_most_idle
from branchpoint_vmruntime.outside.tunnel import both_ways
from branchpoint_vmruntime.outside.upstream import Route, check
from branchpoint_vmruntime.outside.vault import Injected

MOST_KEYED_BYTES = 16 << 20
MOST_KEPT_BYTES = 8 << 20
_SWITCHING = 101
_IDENTITY = (b"Accept-Encoding", b"identity")
# What would have a secret come back in parts, or packed.
_HIDING = frozenset({b"range", b"if-range", b"sec-websocket-extensions"})


class Exchange:
    """One request and its reply. Used once."""

    def __init__(self, tools: Tools, account: Account, client: ClientSide, head: Head) -> None:
        self._tools = tools
        self._account = account
        self._client = client
        self._head = head
        self._passage = Passage(safe=head.method in SAFE_METHODS)
        self._keeping: Keeping | None = None
        self._gone: MachineError | None = None

    async def run(self) -> None:
        """From its head to the end of the reply, whatever that is.

        MachineError if the program is gone, or its connection must end since the reply is not
        whole.
        """
        try:
            await self._run()
        except (OutsideError, StorageError, DamagedError) as error:
            if self._client.answered:
                raise StreamResetError(f"the reply was cut off: {error}") from error
            await say(self._client, answer_to(error))

    async def _run(self) -> None:
        head = self._head
        try:
            rule, _ = self._let_out()
            route = await self._find(rule)
            # A name may take long to be found; by now something else may hold.
            _, injected = self._let_out(route)
        except RefusedError as error:
            self._account.refused(EntryKind.REQUEST, head.method, head.url, str(error))
            raise
        if head.key:
            with self._tools.room.share() as share:
                await self._once(route, share)
            return
        draft = self._account.draft(EntryKind.REQUEST, head.method, head.url)
        with self._account.entry(draft, self._passage), self._crossing():
            await self._converse(route, injected, None)

    def _let_out(self, route: Route | None = None) -> tuple[Rule, Injected]:
        """The rule under which it goes out, and its head, as of now. RefusedError in words."""
        head = self._head
        rule = self._tools.policies.judge(
            self._account.who.branch, head.origin.host, head.origin.port, head.method
        )
        if route is not None:
            check(rule, route.host, route.addresses)
        injected = self._injected(rule)
        if self._is_model_call:
            self._tools.limits.check(self._account.who)
        return rule, injected

    def _crossing(self) -> AbstractContextManager[None]:
        """While it is under way, it ends if it would not be let out any more."""
        origin = self._head.origin
        return self._tools.crossings.open(
            self._account.who.branch, origin.host, origin.port, self._passage, self._head.method
        )

    @property
    def _is_model_call(self) -> bool:
        return self._tools.metering.is_model_call(self._head.method, self._head.path)

    def _injected(self, rule: Rule) -> Injected:
        """The head as it goes out, with secrets, and what must not come back."""
        head, origin = self._head, self._head.origin
        headers = head.headers
        lent = self._tools.lent.get((rule.group, origin.scheme, origin.host, origin.port))
        if lent and all(name.lower() != b"authorization" for name, _ in headers):
            headers = (*headers, (b"Authorization", lent))
        place = with_port(origin.host, origin.port)
        found = self._tools.vault.inject(self._account.who.branch, place, head.target, headers)
        # The value without its scheme is what could come back, or the password in it.
        masks = (*found.masks, *lent_masks(lent)) if lent else found.masks
        if masks and (origin.scheme, origin.port) == ("http", HTTPS_PORT):
            raise RefusedError(
                f"a secret goes to {place} by HTTPS alone, and this request is not encrypted"
            )
        headers = found.headers
        if masks:
            headers = tuple(it for it in headers if it[0].lower() not in _HIDING)
        if masks or self._is_model_call:
            # What is packed in a way that is not known here could be neither masked nor counted.
            rest = (it for it in headers if it[0].lower() != b"accept-encoding")
            headers = (*rest, _IDENTITY)
        return Injected(target=found.target, headers=headers, masks=masks)

    async def _find(self, rule: Rule) -> Route:
        head = self._head
        try:
            return await self._tools.upstream.find(rule, head.origin.host, head.origin.port)
        except RefusedError:
            raise
        except OutsideError as error:
            draft = self._account.draft(EntryKind.REQUEST, head.method, head.url)
            self._account.failed(draft, self._passage, error)
            raise

    async def _once(self, route: Route, share: Share) -> None:
        """For one that bears a key: at most one effect, and the same reply ever after."""
        head = self._head
        body = await self._client.whole_body(MOST_KEYED_BYTES, share.take)
        if body is None:
            words = f"a request with an Idempotency-Key has at most {MOST_KEYED_BYTES >> 20} MiB"
            answer = Answer(413, words)
            if share.was_refused:
                answer = Answer(503, "requests with an Idempotency-Key hold too much at once")
            self._account.refused(EntryKind.REQUEST, head.method, head.url, answer.words)
            await say(self._client, answer)
            return
        whole = hashlib.sha256(body)
        if len(head.url) > LONGEST_URL:
            # The ledger has only the beginning to tell requests apart by.
            whole.update(head.target)
        draft = self._account.draft(
            EntryKind.REQUEST,
            head.method,
            head.url,
            key=head.key,
            fingerprint=whole.hexdigest(),
        )

        async def ask() -> "asyncio.Task[None] | None":
            match await self._tools.replay.begin(draft, retry=head.retry):
                case Go(number=number):
                    # What was let through must be finished: nothing is waited for in between.
                    work = self._carry_out(number, route, body, share)
                    share.hand_on()
                    return self._tools.lasting.start(work)
                case Refuse(status=status, words=words):
                    await say(self._client, Answer(status, words))
                case Replay(reply=reply):
                    await repeat(self._client, reply)
            return None

        if under_way := await alongside(ask(), self._client.gone()):
            await asyncio.shield(under_way)
        if self._gone is not None:
            raise self._gone

    async def _carry_out(self, number: int, route: Route, body: bytes, share: Share) -> None:
        """Do what was let through under a key, whether or not the program waits for it."""
        keeping = self._keeping = Keeping(MOST_KEPT_BYTES, share.take)
        finish = self._tools.replay.finish
        with (
            share,
            self._account.ending(
                self._passage, lambda outcome: finish(number, outcome, keeping.reply())
            ),
        ):
            # It may have waited long for its body, or for another under the key.
            _, injected = self._let_out(route)
            await self._converse(route, injected, body)

    async def _converse(self, route: Route, injected: Injected, body: bytes | None) -> None:
        """Send it, in its turn, and pass the reply on. `body` is None if it is still to be read."""
        limits = self._tools.limits
        if not self._is_model_call or not limits.is_limited:
            await self._send(route, injected, body)
            return
        # What is under way is not counted yet: all at once they would go far beyond a budget.
        async with self._tools.turns:
            limits.check(self._account.who)
            await self._send(route, injected, body)

    async def _send(self, route: Route, injected: Injected, body: bytes | None) -> None:
        head, patience = self._head, self._tools.patience
        length = None if body is None else len(body)
        out = head.outgoing(injected.target, injected.headers, length=length)
        wire = await self._tools.upstream.connect(route, tls=head.origin.scheme == "https")
        try:
            async with at_most_idle(patience.idle_s) as moved:
                server = ServerSide(wire, head.origin.authority, self._passage, moved)
                await server.send(out)
                await alongside(self._reply(server, injected), self._upload(server, body))
        except TimeoutError as error:
            words = f"nothing passed to or from {head.origin.authority} for {patience.idle_s:g} s"
            raise OutsideError(words) from error
        finally:
            await wire.close()

    async def _upload(self, server: ServerSide, body: bytes | None) -> None:
        """Send the body; then wait for the program to be gone."""
        try:
            if body is None:
                while piece := await self._client.body():
                    await server.send(h11.Data(data=piece))
            elif body:
                await server.send(h11.Data(data=body))
            await server.send(h11.EndOfMessage())
        except OutsideError:
            # A server may end its side when it has replied; if it has not, reading tells.
            return
        # Under a key the reply is wanted even if this program will not read it.
        if self._head.key or self._head.upgrade:
            return
        await self._client.gone()

    async def _reply(self, server: ServerSide, injected: Injected) -> None:
        response = await server.response()
        while isinstance(response, h11.InformationalResponse):
            if response.status_code == _SWITCHING:
                await self._switch(server, response, injected)
                return
            response = await server.response()
        self._passage.status = response.status_code
        encoding = _value(response, b"content-encoding").lower()
        counter = self._counter(response, encoding)
        screen = Screen(injected.masks, encoding)
        headers = screen.headers(end_to_end(response.headers.raw_items()))
        reason = screen.line(bytes(response.reason))
        if self._keeping:
            self._keeping.begin(response.status_code, reason, headers)
        framing = () if screen.unpacks else length_of(response.headers.raw_items())
        await self._give(
            lambda: self._client.reply(response.status_code, reason, (*headers, *framing))
        )
        try:
            await self._pass_body(server, screen, counter)
        finally:
            self._count(counter)
        await self._give(lambda: self._client.send(h11.EndOfMessage()))

    async def _pass_body(self, server: ServerSide, screen: Screen, counter: Counter | None) -> None:
        last = b""
        while not server.is_over:
            piece = await server.body()
            if counter and piece:
                counter.feed(piece)
            # One after the other: a small piece may unpack to very much.
            for data in screen.feed(piece) if piece else ():
                await self._pass_piece(last)
                last = data
            if not server.is_over:
                await self._pass_piece(last)
                last = b""
        last += screen.flush()
        # Before the program has all of it, so that whatever it does next finds it recorded.
        self._passage.is_whole = True
        if self._keeping:
            self._keeping.feed(last)
            self._keeping.end()
        await self._give_piece(last)

    async def _pass_piece(self, data: bytes) -> None:
        if self._keeping:
            self._keeping.feed(data)
        await self._give_piece(data)

    async def _give_piece(self, data: bytes) -> None:
        if data:
            await self._give(partial(self._client.send, h11.Data(data=data)))

    async def _give(self, sending: Callable[[], Awaitable[None]]) -> None:
        """Send to the program. Under a key it may be gone: the reply is kept for the next one."""
        if self._gone is not None:
            return
        try:
            await sending()
        except MachineError as error:
            if not self._head.key:
                raise
            self._gone = error

    async def _switch(
        self, server: ServerSide, response: h11.InformationalResponse, injected: Injected
    ) -> None:
        """Another protocol goes on from here, such as that of a WebSocket."""
        self._passage.status = response.status_code
        screen = Screen(injected.masks, "")
        switch = ((b"Connection", b"Upgrade"), (b"Upgrade", self._head.upgrade))
        headers = screen.headers(end_to_end(response.headers.raw_items()))
        self._client.answered = True
        await self._client.send(
            h11.InformationalResponse(
                status_code=_SWITCHING,
                headers=[*headers, *switch],
                reason=screen.line(bytes(response.reason)),
            )
        )
        await both_ways(self._client.rest(), server.rest(), masks=injected.masks)

    def _counter(self, response: h11.Response, encoding: str) -> Counter | None:
        if not self._is_model_call:
            return None
        kind = _value(response, b"content-type")
        return self._tools.metering.meter(self._head.path, kind, encoding)

    def _count(self, counter: Counter | None) -> None:
        if counter is None:
            return
        self._passage.usage = counter.usage()
        if self._passage.usage is None:
            self._passage.note = "no usage in the reply"


async def say(client: ClientSide, answer: Answer) -> None:
    """Give an answer of the proxy's own."""
    await client.answer(answer.status, answer.reason, answer.headers, answer.body, kind=TEXT)


async def repeat(client: ClientSide, reply: RecordedReply) -> None:
    """Give a recorded reply again."""
    await client.answer(reply.status, reply.reason, reply.headers, reply.body)


def _value(response: h11.Response, wanted: bytes) -> str:
    values = [value for name, value in response.headers if name == wanted]
    return b", ".join(values).decode("latin-1").strip()

"""A session's edge: what guards, records and pays for what its machines do outside.

It outlives every machine, and is not rewound by any rollback.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from branchpoint_vmruntime.errors import MachineError, StorageError
from branchpoint_vmruntime.ledger import Decision, Draft, Entry, EntryKind, Outcome, OutcomeState
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.ledger.once import OnceDesk
from branchpoint_vmruntime.ledger.replay import ReplayDesk
from branchpoint_vmruntime.ledger.timeline import last_machine, not_undone
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointKind
from branchpoint_vmruntime.outside.authority import Authority, server_trust, trust_bundle
from branchpoint_vmruntime.outside.costs import Costs
from branchpoint_vmruntime.outside.facts import Outfit, OutsideSpec, Rule, SecretSpec, Who
from branchpoint_vmruntime.outside.forwarding import Forwards
from branchpoint_vmruntime.outside.gateway import Gateway
from branchpoint_vmruntime.outside.groups import Expansion, expand, group_of
from branchpoint_vmruntime.outside.limits import Spending
from branchpoint_vmruntime.outside.policy import Policies
from branchpoint_vmruntime.outside.rule_text import conditions
from branchpoint_vmruntime.outside.stopping import Stopping
from branchpoint_vmruntime.outside.transfer import Transfers
from branchpoint_vmruntime.outside.upstream import Upstream
from branchpoint_vmruntime.outside.usage import Metering
from branchpoint_vmruntime.outside.vault import Vault
from branchpoint_vmruntime.outside.view import View as View
from branchpoint_vmruntime.streams import StreamChannel

log = logging.getLogger(__name__)

OUTFIT_TIMEOUT_S = 30.0
SETTLE_TIMEOUT_S = 2.0
CA_FILE = "ca.pem"
PLACEHOLDERS = "placeholders.json"
GUEST_FOLDER = "/root"
# Why a machine wakes whose branch was not there before.
BEGINS_A_BRANCH = ("start", "fork", "bake")


class WokenMachine(Protocol):
    """What is used of a machine that has just woken."""

    @property
    def streams(self) -> StreamChannel: ...
    @property
    def alive(self) -> bool: ...
    async def outfit(self, outfit: Outfit, *, timeout_s: float) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """A machine that has woken, and how: `parent` is the branch it was forked from."""

    machine: WokenMachine
    branch: str
    incarnation: str
    reason: str
    checkpoint: Checkpoint
    parent: str | None = None


class Outside:
    """Everything of a session that is not in its machines. Made by `open_outside`."""

    def __init__(
        self,
        spec: OutsideSpec,
        initial: Expansion,
        authority: Authority,
        upstream: Upstream,
        *,
        ledger: Ledger,
        view: View,
        folder: Path,
        files_from: Path,
        memory_bytes: int | None,
    ) -> None:
        self.ledger = ledger
        ledger.join(view.session, view.kin)
        self.policies = Policies(initial.rules, group_of)
        self.vault = Vault(folder / PLACEHOLDERS)
        self.costs = Costs(ledger)
        self.spending = Spending(
            spec.limits, self.costs, session=view.session, currency=spec.currency
        )
        self.stopping = Stopping(self.spending, memory_bytes, view.own_bytes)
        self.once = OnceDesk(ledger, self._is_alive)
        self.replay = ReplayDesk(ledger)
        self.transfers = Transfers(self._secret_files)
        self.forwards = Forwards(self.streams, view.branch, awake=view.awake, is_paused=view.paused)
        self._spec = spec
        self._view = view
        self._authority = authority
        self._files_from = files_from
        self._groups = {group.name: group for group in initial.groups}
        self._machines: dict[str, Newcomer] = {}
        self._given: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._guards: dict[str, asyncio.Task[None]] = {}
        self._gateway = Gateway(
            policies=self.policies,
            ledger=ledger,
            replay=self.replay,
            vault=self.vault,
            metering=Metering(spec.prices),
            authority=authority,
            upstream=upstream,
            limits=self.spending,
        )
        self._gateway.lend(initial.groups)
        for secret in spec.secrets:
            self.vault.add(secret)

    @property
    def currency(self) -> str:
        """What money is counted in."""
        return self._spec.currency

    def who(self, branch: str | None = None) -> Who:
        """Whose machine acts, as of now; the current branch's if none is named."""
        name = branch or self._view.branch()
        return Who(
            session=self._view.session,
            branch=name,
            incarnation=self._view.incarnation(name),
            checkpoint=lambda: self._view.head(name),
        )

    def streams(self, branch: str | None = None) -> StreamChannel:
        """The streams of a branch's present machine. MachineError or UsageError in words."""
        return self._view.streams(branch or self._view.branch())

    def not_undone(self, branch: str | None, target: Checkpoint) -> list[Entry]:
        """The effects that a branch's machine, or its last one, has behind it and `target` has not.

        A branch that was lent has behind it what it did in the session that had it, too.
        """
        name, checkpoints = branch or self._view.branch(), self._view.checkpoints()
        sessions = {self._view.session, *(it.session for it in checkpoints if it.session)}
        found = [entry for session in sessions for entry in self.ledger.entries(session)]
        entries = sorted(found, key=lambda entry: entry.number)
        machine, upto = self._view.incarnation(name), None
        head = next((it for it in checkpoints if it.id == self._view.head(name)), None)
        if not machine and head is not None:
            machine, upto = last_machine(entries, self._view.session, name, head)
        return not_undone(entries, checkpoints, incarnation=machine, target=target, upto=upto)

    async def allow(self, branch: str, names: Sequence[str | Rule]) -> Expansion:
        """Let a branch reach groups or hosts, from now on. UsageError in words."""
        opened = await asyncio.to_thread(expand, names)
        self._groups |= {group.name: group for group in opened.groups}
        self._gateway.lend(opened.groups)
        self.policies.allow(branch, opened.rules)
        self._note_policy(branch, "allow", opened.rules)
        await self._dress([branch])
        return opened

    async def deny(self, branch: str, name: str) -> Sequence[Rule]:
        """Take a host or group back from a branch; the rules it has lost."""
        lost = self.policies.deny(branch, name)
        self._gateway.reconsider(branch)
        self._note_policy(branch, "deny", lost)
        await self._dress([branch])
        return lost

    async def add_secret(self, spec: SecretSpec, value: str | None = None) -> None:
        """Bind a secret to its hosts, and give each live branch a placeholder."""
        self.vault.add(spec, value)
        self._note_secret(spec.name, f"bound to {', '.join(spec.hosts)}")
        await self._dress([it.branch for it in self._machines.values()])

    async def remove_secret(self, name: str) -> None:
        """Forget a secret."""
        self.vault.remove(name)
        self._note_secret(name, "removed")
        await self._dress([it.branch for it in self._machines.values()])

    async def woken(self, newcomer: Newcomer) -> None:
        """Guard a machine that has just woken, and fit it out, before anyone works with it."""
        branch = newcomer.branch
        if newcomer.reason in BEGINS_A_BRANCH:
            self.policies.inherit(branch, newcomer.parent)
            self.vault.inherit(branch, newcomer.parent)
        saved = newcomer.checkpoint
        if saved.kind is not CheckpointKind.BASE and saved.branch != branch:
            # Its memory is now that of a machine of the other branch, placeholders and all.
            self.vault.inherit(branch, saved.branch)
        who = self._who(newcomer)
        self._note(who, EntryKind.WAKE, reason=newcomer.reason, key=newcomer.checkpoint.id)
        self._machines[newcomer.incarnation] = newcomer
        guard = self._start(self._guard(newcomer, who), f"edge of {branch}")
        self._guards[newcomer.incarnation] = guard
        outfit = self._outfit(branch)
        if outfit != Outfit():
            await newcomer.machine.outfit(outfit, timeout_s=OUTFIT_TIMEOUT_S)
        begins_anew = saved.kind is CheckpointKind.BASE or newcomer.reason == "start"
        # What is baked is for machines that begin anew, and get the files as they are then.
        begins_anew = begins_anew and newcomer.reason != "bake"
        if begins_anew and self._spec.files:
            brought = await self.transfers.unpack(
                newcomer.machine.streams,
                self._files_from,
                self._spec.files,
                GUEST_FOLDER,
                progress=None,
            )
            for left_out in brought.left_out:
                log.warning("not brought into branch %s: %s", branch, left_out)

    async def settled(self, incarnation: str) -> None:
        """Wait a moment until it is written how all has ended that an ended machine had begun."""
        if guard := self._guards.get(incarnation):
            await asyncio.wait([guard], timeout=SETTLE_TIMEOUT_S)

    async def dropped(self, branch: str) -> None:
        """A branch was given up: its placeholders are worth nothing from now on."""
        self.vault.revoke(branch)
        await self.forwards.dropped(branch)

    async def close(self) -> None:
        """Stop guarding; the machines have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._gateway.close()

    def start(self) -> None:
        """Begin to watch what live machines take."""
        self._start(self.stopping.watch(self._live_branches), "budgets")

    async def _guard(self, newcomer: Newcomer, who: Who) -> None:
        try:
            await self._gateway.serve(newcomer.machine.streams, who)
        finally:
            del self._machines[newcomer.incarnation]
            await self.once.ended(newcomer.incarnation)
            self.replay.ended(newcomer.incarnation)
            del self._guards[newcomer.incarnation]

    async def _dress(self, branches: Sequence[str]) -> None:
        """Give live machines what they are to have by now."""
        there = [it for it in self._machines.values() if it.branch in branches]
        outcomes = await asyncio.gather(
            *(
                it.machine.outfit(self._outfit(it.branch), timeout_s=OUTFIT_TIMEOUT_S)
                for it in there
            ),
            return_exceptions=True,
        )
        for it, outcome in zip(there, outcomes, strict=True):
            if isinstance(outcome, MachineError):
                # It gets the same when it wakes anew.
                log.warning("branch %s has not got its variables: %s", it.branch, outcome)
            elif outcome is not None:
                raise outcome

    @cached_property
    def _trusted(self) -> str:
        return trust_bundle(self._authority)

    def _outfit(self, branch: str) -> Outfit:
        """Variables and files for a branch; what was given to any machine once is taken away."""
        rules = self.policies.rules(branch)
        groups = [self._groups[name] for name in dict.fromkeys(r.group for r in rules) if name]
        wanted: dict[str, str] = dict(self.vault.issue(branch))
        files: dict[str, str] = {CA_FILE: self._trusted} if rules else {}
        for group in groups:
            wanted |= group.environment
            files |= group.files
        gone = dict.fromkeys(self._given - wanted.keys())
        self._given |= wanted.keys()
        return Outfit(environment={**gone, **wanted}, files=files)

    def _who(self, newcomer: Newcomer) -> Who:
        branch, view = newcomer.branch, self._view

        def nearest() -> str:
            on_record = view.incarnation(branch) == newcomer.incarnation
            return view.head(branch) if on_record else newcomer.checkpoint.id

        return Who(
            session=view.session,
            branch=branch,
            incarnation=newcomer.incarnation,
            checkpoint=nearest,
        )

    def _note_policy(self, branch: str, verb: str, rules: Sequence[Rule]) -> None:
        for rule in rules:
            where = f"{rule.host}:{','.join(map(str, rule.ports))}"
            kind, reason = EntryKind.POLICY, conditions(rule)
            who, group = self.who(branch), rule.group
            self._note(who, kind, method=verb, url=where, key=group, reason=reason)

    def _note_secret(self, name: str, what: str) -> None:
        self._note(self.who(), EntryKind.SECRET, key=name, reason=what)

    def _note(
        self,
        who: Who,
        kind: EntryKind,
        *,
        method: str = "",
        url: str = "",
        reason: str = "",
        key: str = "",
    ) -> None:
        self.ledger.note(
            Draft(
                session=who.session,
                branch=who.branch,
                incarnation=who.incarnation,
                checkpoint=who.checkpoint(),
                kind=kind,
                decision=Decision.ALLOWED,
                method=method,
                url=url,
                reason=reason,
                key=key,
            ),
            Outcome(at=datetime.now(UTC), state=OutcomeState.DONE),
        )

    def _live_branches(self) -> set[str]:
        return {it.branch for it in self._machines.values()}

    def _secret_files(self) -> list[Path]:
        return [it.source.file for it in self.vault.names() if it.source.file is not None]

    def _is_alive(self, incarnation: str) -> bool:
        found = self._machines.get(incarnation)
        return found is not None and found.machine.alive

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


@asynccontextmanager
async def open_outside(
    spec: OutsideSpec,
    *,
    ledger: Ledger,
    view: View,
    folder: Path,
    files_from: Path,
    memory_bytes: int | None = None,
) -> AsyncGenerator[Outside]:
    """The edge of a session whose machines are yet to wake.

    `folder` is the session's own, `memory_bytes` the budget of all machines together. UsageError if
    a secret or a group of the manifest cannot be had.
    """
    initial = await asyncio.to_thread(expand, spec.allow)
    authority = await asyncio.to_thread(_authority_in, folder)
    trust = await asyncio.to_thread(server_trust)
    outside = Outside(
        spec,
        initial,
        authority,
        Upstream(trust=trust),
        ledger=ledger,
        view=view,
        folder=folder,
        files_from=files_from,
        memory_bytes=memory_bytes,
    )
    outside.start()
    try:
        async with outside.forwards:
            yield outside
    finally:
        await outside.close()


def _authority_in(folder: Path) -> Authority:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"{folder} cannot be made: {error.strerror}",
            hint="free some space on that disk, or check its permissions",
        ) from error
    return Authority.of(folder)

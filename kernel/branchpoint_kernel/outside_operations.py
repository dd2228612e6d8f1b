"""Carries out what concerns the outside world: what may leave, what has left, costs, ports."""

from collections.abc import Sequence
from pathlib import Path
from typing import (
    assert_never,
)

from branchpoint_kernel import commands
from branchpoint_kernel import outside_rendering as looks
from branchpoint_kernel.costs_operations import CostsOperations
from branchpoint_kernel.effects import effect_record, entry_words
from branchpoint_kernel.outside_grammar import ALL_BRANCHES
from branchpoint_kernel.outside_records import forward_record, rule_record, secret_record
from branchpoint_kernel.rendering import Line, note
from branchpoint_kernel.told import Told
from branchpoint_vmruntime.errors import UnknownNameError, UsageError
from branchpoint_vmruntime.ledger import Decision, Entry, EntryKind, OutcomeState
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.outside.binding import Binding
from branchpoint_vmruntime.outside.facts import SecretSource, SecretSpec
from branchpoint_vmruntime.outside.names import with_port
from branchpoint_vmruntime.outside.outside import Outside
from branchpoint_vmruntime.session import Session

REFUSALS_SHOWN = 5
IN_DOUBT = (OutcomeState.UNKNOWN, OutcomeState.FAILED)


class OutsideOperations:
    """What commands of the outside world do, for cells and for code in machines."""

    def __init__(self, session: Session, folder: Path) -> None:
        self._session = session
        self._costs = CostsOperations(session, folder)

    @property
    def _outside(self) -> Outside:
        return self._session.outside

    @property
    def _currency(self) -> str:
        return self._outside.currency

    async def perform(self, command: commands.OutsideCommand, branch: str | None) -> Told:
        """Do it; `branch` is that of the code that asks, None for a cell.

        UsageError, in words, if it cannot be done, or not for code in a machine.
        """
        match command:
            case commands.Forward() | commands.StopForward():
                return await self._forward(command, branch)
            case (
                commands.ShowEgress()
                | commands.ShowSecrets()
                | commands.ShowLedger()
                | commands.ShowCosts()
                | commands.ShowForwards()
            ):
                return self._answer(command, branch)
            case commands.SaveCosts():
                require_cell(branch, "write files of this computer like that")
                return await self._costs.save(command)
            case _:
                require_cell(branch)
                return await self._change(command)

    async def _change(self, command: commands.EdgeChange) -> Told:
        match command:
            case commands.Allow():
                return await self._allow(command)
            case commands.Deny():
                return await self._deny(command)
            case commands.AddSecret():
                return await self._add_secret(command)
            case commands.RemoveSecret():
                await self._outside.remove_secret(command.name)
                lines = [note("✕", f"{command.name} goes out no more", "placeholders are refused")]
                return self._secrets(lines)
            case commands.Settle():
                return self._settle(command)
            case commands.RaiseLimit():
                self._outside.spending.raise_limit(command.name, command.value)
                return self._costs.show()
            case _:
                assert_never(command)

    def _answer(self, question: commands.OutsideQuestion, branch: str | None) -> Told:
        match question:
            case commands.ShowEgress():
                shown = self._named(question.branch or branch)
                lines = [*self._rules(shown), *looks.refusals_lines(self._refused(shown))]
                return self._egress(lines, shown)
            case commands.ShowSecrets():
                return self._secrets(looks.secrets_lines(self._outside.vault.names()))
            case commands.ShowLedger():
                return self._ledger(question)
            case commands.ShowCosts():
                return self._costs.show()
            case commands.ShowForwards():
                forwards = self._outside.forwards.list()
                return self._forwards(looks.forwards_lines(forwards, self._session.current.name))
            case _:
                assert_never(question)

    async def _allow(self, command: commands.Allow) -> Told:
        lines: list[Line] = []
        branches = self._meant(command.branch)
        for branch in branches:
            opened = await self._outside.allow(branch, command.names)
            lines += self._rules(branch)
            lines += [note("▸", said) for group in opened.groups for said in group.notes]
        lines.append(note("▸", "this holds at once", "%egress deny NAME takes it back"))
        return self._egress(lines, *branches)

    async def _deny(self, command: commands.Deny) -> Told:
        lines: list[Line] = []
        branches = self._meant(command.branch)
        for name in command.names:
            away = [rule for it in branches for rule in await self._outside.deny(it, name)]
            if not away:
                allowed = [rule for it in branches for rule in self._outside.policies.rules(it)]
                known = dict.fromkeys(rule.group or rule.host for rule in allowed)
                raise UnknownNameError("allowed host or group", name, tuple(known))
        for branch in branches:
            lines += self._rules(branch)
        return self._egress(lines, *branches)

    async def _add_secret(self, command: commands.AddSecret) -> Told:
        source = command.source or SecretSource(variable=command.name)
        header = {} if command.header is None else {"header": command.header}
        secret = SecretSpec(name=command.name, hosts=command.hosts, source=source, **header)
        await self._outside.add_secret(secret, command.value)
        return self._secrets(looks.added_lines(secret, self._closed(secret)))

    def _closed(self, secret: SecretSpec) -> list[str]:
        """Those of its hosts that the current branch may not reach."""
        rules = self._outside.policies.rules(self._session.current.name)
        open_to = [Binding.parse(with_port(it.host, port)) for it in rules for port in it.ports]
        wanted = {host: Binding.parse(host) for host in secret.hosts}
        return [
            host for host, it in wanted.items() if not any(it.overlaps(other) for other in open_to)
        ]

    def _settle(self, command: commands.Settle) -> Told:
        session, key = self._session.record.id, command.key
        kind = self._kind_in_doubt(key)
        if command.took_place:
            entry = self._outside.once.accept(session, key, None, kind=kind)
            said = "taken to have taken place"
        else:
            entry = self._outside.once.allow_retry(session, key, kind=kind)
            said = "done again by whoever asks next"
        words = f"{key} is {said}"
        return Told(
            "ledger", [note("●", words, entry_words(entry))], {"entries": [effect_record(entry)]}
        )

    def _kind_in_doubt(self, key: str) -> EntryKind:
        """Whether a key is of a function or of a request: first of the one in doubt.

        UnknownNameError, with the keys there are, if it is of neither.
        """
        ledger, session = self._outside.ledger, self._session.record.id
        found = [ledger.open_under_key(session, kind, key) for kind in looks.KEYED]
        there = [entry for entry in found if entry is not None]
        if not there:
            drafts = [it.draft for it in ledger.entries(session) if it.draft.kind in looks.KEYED]
            known = dict.fromkeys(draft.key for draft in drafts if draft.key)
            raise UnknownNameError("key", key, tuple(known)[-looks.NEWEST :])
        doubtful = [
            entry for entry in there if entry.outcome is None or entry.outcome.state in IN_DOUBT
        ]
        return (*doubtful, *there)[0].draft.kind

    async def _forward(
        self, command: commands.Forward | commands.StopForward, branch: str | None
    ) -> Told:
        pinned = command.branch
        if branch is not None:
            if pinned not in (None, branch) or getattr(command, "to", None) is not None:
                raise UsageError(
                    "code in a machine forwards ports of that machine alone, to a free port",
                    hint="write it at the top level of a cell, which may choose",
                )
            pinned = branch
        if pinned is not None:
            self._named(pinned)
        forwards, current = self._outside.forwards, self._session.current.name
        if isinstance(command, commands.StopForward):
            ended = await forwards.remove(command.port, branch=pinned)
            line = note(
                "✕", f"port {ended.port} is forwarded no more", "its connections are closed"
            )
            return self._forwards([line])
        made = await forwards.add(command.port, to=command.to, branch=pinned)
        return self._forwards([looks.forward_line(made, current)])

    def _rules(self, branch: str) -> list[Line]:
        return looks.rules_lines(branch, self._outside.policies.rules(branch))

    def _refused(self, branch: str) -> list[Entry]:
        entries = self._outside.ledger.entries(self._session.record.id, branch=branch)
        last: dict[tuple[str, str, str], Entry] = {}
        # Programs try again and again: what is the same is told once, at its last time.
        for it in entries:
            if it.draft.decision is Decision.REFUSED:
                what = (it.draft.method, it.draft.url, it.draft.reason)
                last.pop(what, None)
                last[what] = it
        return list(last.values())[-REFUSALS_SHOWN:]

    def _egress(self, lines: Sequence[Line], *branches: str) -> Told:
        rules = {
            branch: [rule_record(rule) for rule in self._outside.policies.rules(branch)]
            for branch in branches
        }
        refused = [effect_record(it) for branch in branches for it in self._refused(branch)]
        return Told("egress", lines, {"rules": rules, "refused": refused})

    def _secrets(self, lines: Sequence[Line]) -> Told:
        secrets = [secret_record(secret) for secret in self._outside.vault.names()]
        return Told("secrets", lines, {"secrets": secrets})

    def _ledger(self, question: commands.ShowLedger) -> Told:
        since = 0
        if question.since is not None:
            since = self._session.find(question.since).moment.position
        if question.branch is not None:
            self._named(question.branch)
        entries = [
            entry
            for entry in self._outside.ledger.entries(
                self._session.record.id, since=since, branch=question.branch
            )
            if entry.draft.kind is not EntryKind.WAKE
        ]
        lines = looks.ledger_lines(entries, whole=question.whole, currency=self._currency)
        kept = entries if question.whole else entries[-looks.NEWEST :]
        more = {"entries": [effect_record(entry) for entry in kept], "entries_total": len(entries)}
        return Told("ledger", lines, more)

    def _forwards(self, lines: Sequence[Line]) -> Told:
        forwards = [forward_record(forward) for forward in self._outside.forwards.list()]
        return Told("forward", lines, {"forwards": forwards})

    def _named(self, branch: str | None) -> str:
        """The branch meant, None being the current one; UnknownNameError if there is none."""
        if branch is None:
            return self._session.current.name
        return self._session.branch(branch).name

    def _meant(self, branch: str | None) -> list[str]:
        if branch != ALL_BRANCHES:
            return [self._named(branch)]
        live = [it for it in self._session.branches() if it.state is BranchState.LIVE]
        return [it.name for it in live]


def require_cell(branch: str | None, what: str = "open what leaves") -> None:
    """UsageError if it is code in a machine that asks: that is what the edge is there to hold."""
    if branch is not None:
        raise UsageError(
            f"only a cell of the notebook may {what}; write it at the top level of a cell"
        )

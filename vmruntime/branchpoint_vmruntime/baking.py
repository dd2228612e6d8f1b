"""Bakes packages into where a session's fresh machines start: a fresh machine, pip in it, saved."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from branchpoint_vmruntime.branch import Live, OwnedBranch
from branchpoint_vmruntime.branch_seam import WakeReason
from branchpoint_vmruntime.budget import Budgets, room
from branchpoint_vmruntime.checkpoint import CheckpointOrder
from branchpoint_vmruntime.errors import (
    BranchpointError,
    ImageBuildError,
    MachineError,
    RefusedError,
    UsageError,
)
from branchpoint_vmruntime.image.command import tail
from branchpoint_vmruntime.image.wanted import canonical, parse_python, project_name
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointKind, Moment
from branchpoint_vmruntime.lineage.naming import BAKED
from branchpoint_vmruntime.machine import Machine
from branchpoint_vmruntime.outside.outside import Outside
from branchpoint_vmruntime.register import Register
from branchpoint_vmruntime.start_image import BakeReport, Start
from branchpoint_vmruntime.waking import Waking
from branchpoint_vmruntime.workshop import Workshop

PIP = "pip"
LIST_TIMEOUT_S = 120.0
INSTALL_TIMEOUT_S = 1800.0

# Each package with its version, and whether it was got by another way than its name.
_LIST = """
import importlib.metadata, json
found = {}
for it in importlib.metadata.distributions():
    name = it.metadata["Name"]
    if name and name not in found:
        found[name] = [it.version, it.read_text("direct_url.json") is not None]
print(json.dumps(found))
"""
_INSTALL = ("python3", "-m", "pip", "install", "--no-input", "--no-cache-dir", "--progress-bar=off")


@dataclass(frozen=True, slots=True)
class Installed:
    """One package in a machine; `by_name` if an index was asked for it."""

    name: str
    version: str
    by_name: bool = True

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


@dataclass(frozen=True, slots=True)
class _Fresh:
    """A machine that nobody has worked in, and what it has woken from."""

    live: Live
    origin: Checkpoint


class Baking:
    """Implements `start_image.StartImage`. Its machines are on no record and are no branches.

    `busy` is the session's own lock, held while machines are woken and saved. `awake` gives a
    branch, or the current one, its machine if it is paused.
    """

    def __init__(
        self,
        register: Register,
        workshop: Workshop,
        waking: Waking,
        outside: Outside,
        busy: asyncio.Lock,
        awake: Callable[[str | None], Awaitable[OwnedBranch]],
    ) -> None:
        self._register = register
        self._workshop = workshop
        self._waking = waking
        self._outside = outside
        self._busy = busy
        self._awake = awake

    def start(self) -> Start:
        """Where fresh machines start."""
        checkpoint = self._register.start() or self._register.base
        chain = tuple(self._register.tree().path(checkpoint.id))
        refused = self._why_not(checkpoint)
        failed = "" if refused else self._waking.not_started.get(checkpoint.id, "")
        return Start(checkpoint=checkpoint, chain=chain, refused=refused, failed=failed)

    async def bake(self, named: Sequence[str]) -> BakeReport:
        """Have fresh machines start with what the current branch has installed, and those named."""
        self._require_own_start()
        began = time.monotonic()
        wanted = {project_name(it): it for it in map(parse_python, named)}
        of = await self._awake(None)
        self._require_way_out(of)
        there = await installed_in(of)
        async with self._fresh() as fresh:
            had = await installed_in(fresh.live.machine)
            extra = beyond(there, had)
            asked = {canonical(it.name): str(it) for it in extra if it.by_name} | wanted
            if not asked:
                raise UsageError(
                    f"branch {of.name!r} has no package beyond where fresh machines start",
                    hint="name what is to be in them: %image add PACKAGE",
                )
            output = await self._install(fresh.live, sorted(asked.values()))
            more = beyond(await installed_in(fresh.live.machine), had)
            note = ", ".join(map(str, more)) or "nothing that was not there"
            checkpoint = await self._save(fresh, note)
        total_ms = round(1000 * (time.monotonic() - began), 3)
        self._register.note("bake", of.name, checkpoint, total_ms, checkpoint.cost.phases_ms)
        return BakeReport(
            checkpoint=checkpoint,
            packages=tuple(map(str, more)),
            left_out=tuple(
                str(it) for it in extra if not it.by_name and canonical(it.name) not in wanted
            ),
            output=output,
            total_ms=total_ms,
        )

    async def reset(self) -> Start:
        """Have fresh machines start from the base again. What was baked is kept no longer."""
        self._require_own_start()
        async with self._busy:
            before = self._register.start()
            self._register.start_from(None)
            if before is not None:
                self._register.pin(before, pinned=False)
        return self.start()

    def _why_not(self, checkpoint: Checkpoint) -> str:
        try:
            self._workshop.require_loadable(self._register.tree(), checkpoint)
        except BranchpointError as error:
            return str(error)
        return ""

    def _require_own_start(self) -> None:
        if (loan := self._register.loan) is not None:
            raise UsageError(
                f"this notebook continues branch {loan.branch!r}: its fresh machines are that",
                hint="a notebook that was not opened as a branch has an image of its own",
            )

    def _require_way_out(self, of: OwnedBranch) -> None:
        if not any(rule.group == PIP for rule in self._outside.policies.rules(of.name)):
            raise RefusedError(
                f"pip may not reach its index from branch {of.name!r}",
                hint="%egress allow pip lets it; then ask again",
            )

    @asynccontextmanager
    async def _fresh(self) -> AsyncGenerator[_Fresh]:
        async with self._busy:
            free = self._workshop.available_bytes()
            room(Budgets(), live=0, own_bytes=0, available_bytes=free).require(1)
            start = self.start()
            origin = self._register.base if start.refused else start.checkpoint
            live = await self._waking.wake(BAKED, 0, origin, WakeReason.BAKE, reseed=True)
        try:
            # What else its session may reach is nothing to what packages run while they install.
            rules = self._outside.policies.rules(BAKED)
            for name in dict.fromkeys(rule.group or rule.host for rule in rules):
                if name != PIP:
                    await self._outside.deny(BAKED, name)
            if not any(rule.group == PIP for rule in rules):
                await self._outside.allow(BAKED, [PIP])
            yield _Fresh(live, origin)
        finally:
            await live.end()
            await self._outside.dropped(BAKED)

    async def _install(self, live: Live, packages: Sequence[str]) -> str:
        done = await live.machine.execute([*_INSTALL, "--", *packages], timeout_s=INSTALL_TIMEOUT_S)
        said = tail(f"{done.stdout}\n{done.stderr}".encode())
        if done.status != 0:
            raise ImageBuildError(
                f"pip could not install {', '.join(packages)}:\n{said}",
                hint="fresh machines start from where they did; %egress shows what was refused",
            )
        return said

    async def _save(self, fresh: _Fresh, note: str) -> Checkpoint:
        # It wakes where pip may perhaps not reach out; what it was given for that is taken away.
        await self._outside.deny(BAKED, PIP)
        incarnation = fresh.live.machine.identity.incarnation

        async def witness(_branch: str) -> Moment:
            return Moment(incarnation=incarnation, position=self._outside.ledger.position())

        async with self._busy:
            order = CheckpointOrder(
                session=self._register.record.id,
                parent=fresh.origin.id,
                label=self._register.next_label(BAKED),
                note=note,
                kind=CheckpointKind.USER,
                branch=BAKED,
                witness=witness,
            )
            saved = await self._write(fresh.live, order)
            before = self._register.start()
            try:
                self._register.add_checkpoint(saved, advance=None)
                self._register.pin(saved, pinned=True)
                self._register.start_from(saved)
            except BaseException:
                self._forget(saved)
                raise
            if before is not None:
                # What the new one stands upon stays for that; what it does not can go.
                self._register.pin(before, pinned=False)
        return saved

    async def _write(self, live: Live, order: CheckpointOrder) -> Checkpoint:
        """The checkpoint, on no record yet. Called off, it leaves no file behind."""

        async def write() -> Checkpoint:
            pending = await self._workshop.draft(live, order, resume=False)
            return await self._workshop.publish(pending, live, self._register.tree())

        writing = asyncio.create_task(write())
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            # What threads are still writing cannot be removed; what they have written can.
            with suppress(BranchpointError):
                self._workshop.discard(await writing)
            raise

    def _forget(self, saved: Checkpoint) -> None:
        if any(it.id == saved.id for it in self._register.checkpoints()):
            self._register.pin(saved, pinned=False)
            self._register.remove([saved])
        self._workshop.discard(saved)


async def installed_in(machine: OwnedBranch | Machine) -> list[Installed]:
    """The Python packages in a machine; MachineError in words if it cannot say."""
    done = await machine.execute(["python3", "-P", "-c", _LIST], timeout_s=LIST_TIMEOUT_S)
    try:
        found: dict[str, tuple[str, bool]] = json.loads(done.stdout)
        return [
            Installed(str(name), str(version), not direct)
            for name, (version, direct) in found.items()
        ]
    except (ValueError, TypeError, AttributeError) as error:
        said = tail(done.stderr.encode()) or "nothing that can be read"
        raise MachineError(f"the machine's Python cannot list its packages: {said}") from error


def beyond(there: Sequence[Installed], had: Sequence[Installed]) -> list[Installed]:
    """What is there and was not, or at another version, in the order of names.

    >>> beyond([Installed("a", "1"), Installed("B", "2")], [Installed("b", "1")])[1]
    Installed(name='B', version='2', by_name=True)
    """
    known: Mapping[str, str] = {canonical(it.name): it.version for it in had}
    more = [it for it in there if known.get(canonical(it.name)) != it.version]
    return sorted(more, key=lambda it: canonical(it.name))

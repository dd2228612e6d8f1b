"""A real session that Hypothesis drives: operations and kills by chance, each checked after."""

import asyncio
import os
import random
import secrets
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support import session_traces as traces
from tests.support.live_kernel import PATIENCE_S, has_run, wait_until
from tests.support.random_steps import CUT_SHORT, KINDS, Step, plan
from tests.support.tree_model import TreeModel

from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.leaks import sweep
from branchpoint_vmruntime.lineage import BranchRecord, BranchState, SessionId
from branchpoint_vmruntime.overview import overview
from branchpoint_vmruntime.owner import start_owner
from branchpoint_vmruntime.removal import remove_session
from branchpoint_vmruntime.session_control import SessionControl
from branchpoint_vmruntime.storage.collecting import collect
from branchpoint_vmruntime.storage.digests import verifiable
from branchpoint_vmruntime.storage.keeping import remember
from branchpoint_vmruntime.storage.retention import StoreBudgets
from branchpoint_vmruntime.storage.sizes import layer_of
from branchpoint_vmruntime.storage.verifying import verify

ASKS = "(x, open('x').read()) if 'x' in globals() else None"
_OTHER_KINDS = ("gc", "sweep", "kill machine", "kill owner", "cut short", "end")
EVERY_KIND = (*KINDS, *_OTHER_KINDS)
# Digests are read again so seldom: of what is collected between two of these none is compared.
_STEPS_TO_VERIFY = 40
_LATEST_S = 0.5
_CHANCE = st.integers(0, 1 << 24)


class RandomSession(RuleBasedStateMachine):
    """One rule, not one for each kind: Hypothesis would leave some kinds out of a run.

    The owner is a process of its own, so that it can be killed. `done` counts what was done, by
    its kind.
    """

    def __init__(self, home: Home, *, key: str, done: Counter[str]) -> None:
        super().__init__()
        self._home = home
        # Hypothesis does again what failed.
        self._key = f"{key} {secrets.token_hex(3)}"
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._pid = 0
        self._id = ""
        self._done = 0
        self._done_by_kind = done
        self._began = time.monotonic()
        self._agreed = True

    @initialize(start=_CHANCE)
    def open(self, start: int) -> None:
        """The first that Hypothesis tries is all zeros: the same operation again and again."""
        assume(start)
        self._agreed = False
        self._runner.run(self._open(fresh=True))
        base, *_ = self._runner.run(self._control.checkpoints())
        self._model = TreeModel(base)

    @rule(
        kind=st.sampled_from(EVERY_KIND),
        seed=_CHANCE,
    )
    def operate(self, kind: str, seed: int) -> None:
        """One operation, or one kill."""
        self._agreed = False
        self._done += 1
        self._runner.run(self._told(self._operate(kind, random.Random(seed))))
        self._done_by_kind[kind] += 1

    @invariant()
    def agree(self) -> None:
        """What owner, store, disk and processes have is what the model has."""
        self._runner.run(self._told(self._agree()))
        self._agreed = True

    def teardown(self) -> None:
        """Let every saved moment go once it is known to be whole; nothing is left."""
        try:
            if self._agreed and self._id:
                self._runner.run(self._leave_nothing())
        finally:
            self._runner.run(self._stack.aclose())
            if self._pid:
                traces.end(self._pid, signal.SIGKILL)
            self._runner.close()

    async def _open(self, *, fresh: bool) -> None:
        opened = await start_owner(self._home, key=self._key, folder=self._home.root, fresh=fresh)
        self._pid, self._id = opened.pid, opened.id
        self._control = await self._stack.enter_async_context(
            SessionControl(self._home.control(opened.id))
        )

    def _say(self, words: str) -> None:
        sys.stdout.write(f"{self._done:4} {time.monotonic() - self._began:6.1f} s  {words}\n")
        sys.stdout.flush()

    async def _told(self, work: Coroutine[Any, Any, None]) -> None:
        """What goes wrong, as it does: Hypothesis tells of it only when all is done once more."""
        try:
            await work
        except BaseException:
            self._say(traceback.format_exc())
            raise

    async def _operate(self, kind: str, chance: random.Random) -> None:
        match kind:
            case "gc":
                await self._collect(chance)
            case "sweep":
                self._say("sweep beside the owner")
                swept = await asyncio.to_thread(sweep, self._home)
                assert not [leak for leak in swept if leak.session == self._id]
            case "kill machine":
                await self._kill_machine(chance)
            case "kill owner":
                await self._kill_owner(chance)
            case "cut short":
                await self._cut_short(chance)
            case "end":
                await self._end(chance)
            case _:
                await self._do(plan(kind, self._model, chance, self._done))

    async def _do(self, step: Step) -> None:
        self._say(step.words)
        if step.refused is not None:
            with pytest.raises(step.refused):
                await step.ask(self._control)
        else:
            step.done(await step.ask(self._control))

    async def _collect(self, chance: random.Random) -> None:
        own, folder = self._own_checkpoints(), self._home.session(self._id)
        most = chance.randint(2, len(own) + 2)
        remember(folder, StoreBudgets(checkpoints=most))
        planned = await collect(self._home, dry_run=True)
        collected = await collect(self._home)
        remember(folder, StoreBudgets())
        gone = {it.path.name for it in collected.removals if it.session == self._id}
        self._say(f"gc down to {most}: {len(gone)} of {len(own)} went")
        assert gone == {it.path.name for it in planned.removals if it.session == self._id}
        self._model.removed(gone)
        left = self._own_checkpoints()
        assert len(left) <= most or not self._model.removable(left)

    async def _kill_machine(self, chance: random.Random) -> None:
        there = traces.machines(self._home, self._id)
        if not there:
            self._say("no machine to kill")
            return
        pid = chance.choice(there)
        ran = has_run(pid)
        self._say(f"kill machine {there.index(pid)} of {len(there)}, which has run: {ran}")
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            # One that stood by is ended beside what the session was asked for.
            self._say("it has ended by itself")
            return
        if ran:
            await self._hear_of_loss()

    async def _hear_of_loss(self) -> None:
        """Exactly one of the live branches has no machine any more, and soon says so."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            told = {it.name: it.state for it in await self._control.branches()}
            lost = [name for name in self._model.live() if told[name] is BranchState.LOST]
            if lost:
                (name,) = lost
                self._say(f"lost: {name}")
                self._model.lines[name].state = BranchState.LOST
                return
            await asyncio.sleep(0.05)
        pytest.fail("a machine was killed, and no branch is lost")

    async def _kill_owner(self, chance: random.Random) -> None:
        self._say("kill the owner")
        await self._owner_dies()
        await self._come_back(chance)

    async def _owner_dies(self) -> None:
        await asyncio.to_thread(traces.end, self._pid, signal.SIGKILL)
        await self._stack.aclose()
        gone = lambda: not traces.machines(self._home, self._id)  # noqa: E731
        assert await asyncio.to_thread(wait_until, gone), "a machine outlived its owner"

    async def _come_back(self, chance: random.Random) -> None:
        self._model.lost_all()
        if chance.random() < 0.5:
            self._say("sweep")
            await asyncio.to_thread(sweep, self._home)
            left = [it for it in overview(self._home).leaks if it.session == self._id]
            assert not left, left
            assert traces.layers(self._home, self._id) == self._own_checkpoints()
        fresh = chance.random() < 0.3
        self._say("begin anew" if fresh else "carry on")
        if fresh:
            self._model.began_anew()
        before = self._id
        await self._open(fresh=fresh)
        assert self._id == before

    async def _end(self, chance: random.Random) -> None:
        save = chance.random() < 0.8
        by_signal = save and chance.random() < 0.5
        self._say(f"end, saving: {save}, by a signal: {by_signal}")
        if by_signal:
            await asyncio.to_thread(traces.end, self._pid, signal.SIGTERM)
        else:
            await self._control.end(save=save)
        await self._stack.aclose()
        if save:
            on_record = traces.on_record(self._home, self._id)
            for name in self._model.live():
                head = on_record.checkpoints[on_record.branches[name].head]
                self._model.put_away(name, head, BranchState.PAUSED)
        assert not self._home.control(self._id).exists()
        assert not traces.overlays(self._home, self._id) | traces.flat_images(self._home, self._id)
        await self._come_back(chance)

    async def _cut_short(self, chance: random.Random) -> None:
        """Something is killed while an operation is under way; it was done, or it was not."""
        step = plan(chance.choice(CUT_SHORT), self._model, chance, self._done)
        while step.refused is not None:
            step = plan(chance.choice(CUT_SHORT), self._model, chance, self._done)
        owner, after_s = chance.random() < 0.6, chance.random() * _LATEST_S
        victim = "owner" if owner else "machine"
        self._say(f"cut short after {after_s:.2f} s by killing the {victim}: {step.words}")
        under_way = asyncio.ensure_future(step.ask(self._control))
        await asyncio.wait([under_way], timeout=after_s)
        if owner:
            await self._owner_dies()
        elif there := traces.machines(self._home, self._id):
            # What is under way may have ended it first.
            with suppress(ProcessLookupError):
                os.kill(chance.choice(there), signal.SIGKILL)
        answer = (await asyncio.gather(under_way, return_exceptions=True))[0]
        self._say(f"it came to: {answer!r:.200}")
        if isinstance(answer, BaseException):
            assert isinstance(answer, BranchpointError), answer
        elif owner:
            step.done(answer)
        lost = [it.name for it in self._model.lines.values() if it.state is BranchState.LOST]
        self._model.take_in(traces.on_record(self._home, self._id), step)
        if owner:
            await self._come_back(chance)
        else:
            await self._find_the_lost(step, before=lost)

    async def _find_the_lost(self, step: Step, *, before: Sequence[str]) -> None:
        """At most one branch more has no machine; what the others have can be told."""
        lost: list[str] = []
        for name in self._model.live():
            try:
                await self._ask(name)
            except BranchpointError:
                lost.append(name)
        told = {it.name: it.state for it in await self._control.branches()}
        for name, line in self._model.lines.items():
            if line.state is BranchState.LIVE and told[name] is BranchState.LOST:
                assert name in lost, f"{name} answered, and is lost"
                line.state = BranchState.LOST
        assert len(set(lost) - set(before)) <= 1, lost
        assert not set(lost) & set(self._model.live()), lost
        self._say(f"lost: {lost}; {step.words.split()[0]} was cut short")

    async def _ask(self, name: str) -> None:
        line = self._model.lines[name]
        text = (await self._control.run(ASKS, branch=name)).text.strip()
        values = {repr((it, it)) if it else "": it for it in line.values}
        assert text in values, f"{name} has {text}, and not {line.values}"
        line.values = {values[text]}

    def _own_checkpoints(self) -> set[str]:
        return set(self._model.saved) - {self._model.base}

    async def _agree(self) -> None:
        model, record = self._model, traces.on_record(self._home, self._id)
        told = await self._control.branches()
        assert {
            it.name: (it.state, it.head, it.origin, it.parent) for it in told
        } == model.branches_as_told()
        assert [it.name for it in told if it.current] == [model.current]
        assert record.session.current == model.current
        assert {
            it.name: (self._as_owner_tells(it), it.head, it.origin, it.parent)
            for it in record.branches.values()
        } == model.branches_as_told()
        assert {
            it.id: (it.label, it.parent, it.kind, it.branch, it.pinned)
            for it in await self._control.checkpoints()
        } == model.checkpoints_as_told()
        assert {
            it.id: (it.label, it.parent, it.kind, it.branch, it.id in record.pins)
            for it in record.checkpoints.values()
        } == model.checkpoints_as_told()
        for name in model.live():
            await self._ask(name)
        await asyncio.to_thread(self._agree_on_disk)
        if self._done and self._done % _STEPS_TO_VERIFY == 0:
            looked = await verify(self._home, SessionId(self._id))
            assert looked.whole, looked

    def _as_owner_tells(self, branch: BranchRecord) -> BranchState:
        """What was lost a moment ago is on record as live until its owner does something more."""
        line = self._model.lines.get(branch.name)
        lost = branch.state is BranchState.LIVE and line and line.state is BranchState.LOST
        return BranchState.LOST if lost else branch.state

    def _agree_on_disk(self) -> None:
        record = traces.on_record(self._home, self._id)
        own = self._own_checkpoints()
        assert traces.layers(self._home, self._id) == own
        for id_ in own:
            assert verifiable(layer_of(self._home, record.checkpoints[id_])), id_
        assert wait_until(
            lambda: traces.flat_images(self._home, self._id) <= own | {self._model.base}
        ), (
            "there are flat images of no checkpoint: "
            f"{traces.flat_images(self._home, self._id) - own}"
        )
        assert [it.stem for it in self._home.run.glob("*.sock") if it.stem == self._id]
        assert wait_until(self._as_many_machines_as_there_should_be), (
            f"live: {self._model.live()}, machines: {traces.machines(self._home, self._id)}, "
            f"folders: {traces.overlays(self._home, self._id)}"
        )

    def _as_many_machines_as_there_should_be(self) -> bool:
        """One for each live branch, and at most one that stands by; each with its folder.

        What a lost one has written is there until its branch is given another machine or dropped.
        """
        live = len(self._model.live())
        lost = sum(line.state is BranchState.LOST for line in self._model.lines.values())
        machines = traces.machines(self._home, self._id)
        folders = traces.overlays(self._home, self._id)
        return len(machines) - live in (0, 1) and 0 <= len(folders) - live <= 1 + lost

    async def _leave_nothing(self) -> None:
        looked = await verify(self._home, SessionId(self._id))
        assert looked.whole, looked
        assert not looked.strays, looked
        await self._control.end(save=False)
        assert not traces.machines(self._home, self._id)
        await asyncio.to_thread(remove_session, self._home, self._id)
        assert not [path for path in self._home.root.rglob("*") if self._id in str(path)]
        self._say(f"{len(self._model.saved)} checkpoints were whole and are gone")

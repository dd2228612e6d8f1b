"""Operations on a session, chosen by chance: how each is asked for, and what it does to a model."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.support.tree_model import TreeModel

from branchpoint_vmruntime.control_facts import (
    CheckpointFacts,
    ForkFacts,
    KeepFacts,
    PauseFacts,
    RollbackFacts,
)
from branchpoint_vmruntime.errors import BranchpointError, UnknownNameError, UsageError
from branchpoint_vmruntime.lineage import BranchState, CheckpointKind
from branchpoint_vmruntime.session_control import SessionControl

Ask = Callable[[SessionControl], Awaitable[Any]]

MOST_MACHINES = 5
_LABELS = (None, None, "a", "b", "größe")
_SET = "x = {!r}; open('x', 'w').write(x); None"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One operation. `refused` is the error it has to be; otherwise `done` changes the model.

    What follows tells what may have come of it if it was cut short: branches it is about, where
    they may have gone to, values they may have, checkpoints that may be gone.
    """

    words: str
    ask: Ask
    done: Callable[[Any], None] = lambda _answer: None
    refused: type[BranchpointError] | None = None
    names: frozenset[str] = frozenset()
    states: frozenset[BranchState] = frozenset({BranchState.LIVE})
    goal: str | None = None
    value: str | None = None
    current: str | None = None
    going: frozenset[str] = frozenset()
    forks_of: str | None = None


def plan(kind: str, model: TreeModel, chance: random.Random, number: int) -> Step:
    """An operation of that kind."""
    return KINDS[kind](_Planning(model, chance, number))


class _Planning:
    def __init__(self, model: TreeModel, chance: random.Random, number: int) -> None:
        self.model = model
        self.chance = chance
        self.number = number

    def name(self) -> str:
        """Mostly one that there is; sometimes one that was dropped."""
        there = [it.name for it in self.model.lines.values() if it.state is not BranchState.DROPPED]
        every = list(self.model.lines)
        return self.chance.choice(every if self.chance.random() < 0.1 else there)

    def checkpoint(self) -> str:
        return self.chance.choice(list(self.model.saved))

    def state(self, name: str) -> BranchState:
        return self.model.lines[name].state

    def cannot_be_awake(self, name: str) -> type[BranchpointError] | None:
        usable = (BranchState.LIVE, BranchState.PAUSED)
        return None if self.state(name) in usable else UsageError

    def full(self, more: int = 1) -> bool:
        return len(self.model.live()) + more > MOST_MACHINES

    def awake(self, name: str) -> None:
        if self.state(name) is not BranchState.LIVE:
            self.model.woke(name)


def _run(it: _Planning) -> Step:
    name, value = it.name(), f"v{it.number}"

    def done(_answer: Any) -> None:
        it.awake(name)
        it.model.lines[name].values = {value}

    return Step(
        words=f"run x = {value} in {name}",
        ask=lambda control: control.run(_SET.format(value), branch=name),
        done=done,
        refused=it.cannot_be_awake(name),
        names=frozenset({name}),
        value=value,
    )


def _checkpoint(it: _Planning) -> Step:
    name, label = it.name(), it.chance.choice(_LABELS)
    pinned = it.chance.random() < 0.1

    def done(made: CheckpointFacts) -> None:
        it.awake(name)
        expected = label or it.model.label("checkpoint")
        it.model.took(name, made, kind=CheckpointKind.USER, label=expected)
        it.model.saved[made.id].pinned = pinned

    return Step(
        words=f"checkpoint {name} as {label}, pinned: {pinned}",
        ask=lambda control: control.checkpoint(label, branch=name, pinned=pinned),
        done=done,
        refused=it.cannot_be_awake(name),
        names=frozenset({name}),
    )


def _fork(it: _Planning) -> Step:
    parent, count = it.name(), it.chance.randint(1, 2)
    start = it.checkpoint() if it.chance.random() < 0.5 else None
    if it.full(count + (start is None)):
        return _drop(it)

    def done(report: ForkFacts) -> None:
        if start is None:
            it.awake(parent)
            kind, label = CheckpointKind.FORK_POINT, it.model.label("fork")
            it.model.took(parent, report.origin, kind=kind, label=label)
        assert not report.failures, report.failures
        names = it.model.fork_names(parent, count)
        assert [fork.name for fork in report.branches] == names
        for fork in report.branches:
            it.model.forked(fork, start or report.origin.id, parent)

    return Step(
        words=f"fork {count} of {parent} from {start or 'now'}",
        ask=lambda control: control.fork(count, start=start, branch=parent),
        done=done,
        refused=None if start else it.cannot_be_awake(parent),
        names=frozenset({parent, *it.model.fork_names(parent, count)}),
        goal=start,
        forks_of=parent,
    )


def _rollback(it: _Planning) -> Step:
    name, safety = it.name(), it.chance.random() < 0.7
    target = it.checkpoint() if it.chance.random() < 0.8 else None
    head, state = it.model.lines[name].head, it.state(name)
    goal = target or head
    nothing_to_go_back_to = target is None and head == it.model.base
    refused = UsageError if nothing_to_go_back_to or state is BranchState.DROPPED else None

    def done(report: RollbackFacts) -> None:
        saved_already = state in (BranchState.PAUSED, BranchState.PARKED)
        expected = safety and (saved_already or state is BranchState.LIVE)
        assert (report.safety is not None) == expected, report
        if report.safety is not None and saved_already:
            assert report.safety.id == head, report
        elif report.safety is not None:
            label = it.model.label("before-rollback")
            it.model.took(name, report.safety, kind=CheckpointKind.SAFETY, label=label)
        it.model.woke(name, goal)

    return Step(
        words=f"roll {name} ({state}) back to {target}, with safety: {safety}",
        ask=lambda control: control.rollback(target, branch=name, safety=safety),
        done=done,
        refused=refused,
        names=frozenset({name}),
        goal=goal,
    )


def _switch(it: _Planning) -> Step:
    name = it.name()

    def done(_answer: Any) -> None:
        it.awake(name)
        it.model.current = name

    return Step(
        words=f"switch to {name} ({it.state(name)})",
        ask=lambda control: control.switch(name),
        done=done,
        refused=UsageError if it.state(name) is BranchState.DROPPED else None,
        names=frozenset({name}),
        current=name,
    )


def _keep(it: _Planning) -> Step:
    name = it.name()
    others = [other for other in it.model.live() if other != name]

    async def ask(control: SessionControl) -> tuple[KeepFacts, dict[str, CheckpointFacts]]:
        kept = await control.keep(name)
        return kept, {made.id: made for made in await control.checkpoints()}

    def done(answer: tuple[KeepFacts, dict[str, CheckpointFacts]]) -> None:
        kept, checkpoints = answer
        it.awake(name)
        it.model.current = name
        parked = {branch.name: branch.head for branch in kept.parked}
        assert set(others) <= set(parked)
        for other in others:
            it.model.put_away(other, checkpoints[parked[other]], BranchState.PARKED)

    return Step(
        words=f"keep {name} ({it.state(name)})",
        ask=ask,
        done=done,
        refused=UsageError if it.state(name) is BranchState.DROPPED else None,
        names=frozenset({name, *others}),
        states=frozenset({BranchState.LIVE, BranchState.PARKED}),
        current=name,
    )


def _drop(it: _Planning) -> Step:
    names = sorted({it.name() for _ in range(it.chance.randint(1, 2))})

    def done(_answer: Any) -> None:
        for name in names:
            it.model.lines[name].state = BranchState.DROPPED

    return Step(
        words=f"drop {', '.join(names)}",
        ask=lambda control: control.drop(names),
        done=done,
        refused=UsageError if it.model.current in names else None,
        names=frozenset(names),
        states=frozenset({BranchState.DROPPED}),
    )


def _pause(it: _Planning) -> Step:
    name = it.name()

    def done(report: PauseFacts) -> None:
        assert report.freed_bytes > 0
        it.model.put_away(name, report.checkpoint, BranchState.PAUSED)

    return Step(
        words=f"pause {name} ({it.state(name)})",
        ask=lambda control: control.pause(name),
        done=done,
        refused=None if it.state(name) is BranchState.LIVE else UsageError,
        names=frozenset({name}),
        states=frozenset({BranchState.PAUSED}),
    )


def _resume(it: _Planning) -> Step:
    name = it.name()
    refused = it.state(name) in (BranchState.LIVE, BranchState.DROPPED)
    return Step(
        words=f"resume {name} ({it.state(name)})",
        ask=lambda control: control.resume(name),
        done=lambda _answer: it.model.woke(name),
        refused=UsageError if refused else None,
        names=frozenset({name}),
    )


def _pin(it: _Planning) -> Step:
    checkpoint, pinned = it.checkpoint(), it.chance.random() < 0.5

    def done(_answer: Any) -> None:
        it.model.saved[checkpoint].pinned = pinned

    return Step(
        words=f"pin {checkpoint}: {pinned}",
        ask=lambda control: control.pin(checkpoint, pinned=pinned),
        done=done,
    )


def _remove(it: _Planning) -> Step:
    several = it.chance.randint(1, min(4, len(it.model.saved)))
    wanted = it.chance.sample(list(it.model.saved), several)
    going = it.model.removable(wanted)

    def done(gone: list[CheckpointFacts]) -> None:
        assert {checkpoint.id for checkpoint in gone} == going
        it.model.removed(going)

    return Step(
        words=f"remove {', '.join(wanted)}; {len(going)} can go",
        ask=lambda control: control.remove(wanted),
        done=done,
        going=frozenset(going),
    )


def _two_at_once(it: _Planning) -> Step:
    live = it.model.live()
    if len(live) < 2:
        return _checkpoint(it)
    names = it.chance.sample(live, 2)
    # What is set aside has a sign in its name that a label cannot have.
    labels = [f"{name}-at-once".replace("~", "-") for name in names]

    def done(made: list[CheckpointFacts]) -> None:
        for name, label, checkpoint in zip(names, labels, made, strict=True):
            it.model.took(name, checkpoint, kind=CheckpointKind.USER, label=label)

    async def ask(control: SessionControl) -> list[CheckpointFacts]:
        named = zip(names, labels, strict=True)
        asked = [control.checkpoint(label, branch=name) for name, label in named]
        return await asyncio.gather(*asked)

    return Step(
        words=f"checkpoint {' and '.join(names)} at once",
        ask=ask,
        done=done,
        names=frozenset(names),
    )


def _unknown(it: _Planning) -> Step:
    asks: list[Ask] = [
        lambda control: control.switch("nope"),
        lambda control: control.rollback("nope"),
        lambda control: control.pin("nope"),
        lambda control: control.fork(1, start="nope"),
        lambda control: control.drop([it.model.current, "nope"]),
        lambda control: control.remove([it.model.base, "nope"]),
    ]
    return Step(
        words="ask for what there is not", ask=it.chance.choice(asks), refused=UnknownNameError
    )


KINDS: dict[str, Callable[[_Planning], Step]] = {
    "run": _run,
    "checkpoint": _checkpoint,
    "fork": _fork,
    "rollback": _rollback,
    "switch": _switch,
    "keep": _keep,
    "drop": _drop,
    "pause": _pause,
    "resume": _resume,
    "pin": _pin,
    "remove": _remove,
    "two at once": _two_at_once,
    "unknown": _unknown,
}
CUT_SHORT = (
    "run",
    "checkpoint",
    "fork",
    "rollback",
    "switch",
    "keep",
    "drop",
    "pause",
    "resume",
    "remove",
)

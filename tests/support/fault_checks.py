"""What must hold after a fault: in the session that goes on, and in a home that nobody has open."""

import asyncio
import contextlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.fault_operations import (
    EXPORTED,
    IMPORTED,
    KEPT,
    KEY,
    LENT,
    OF_CLOSED,
    OPERATIONS,
    QUIET,
    Scene,
    held,
)
from tests.support.faults import RECORDED, Kind

from branchpoint_vmruntime import Runtime
from branchpoint_vmruntime.branch import OwnedBranch
from branchpoint_vmruntime.errors import MachineError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.leaks import leaks, running_machines, sweep
from branchpoint_vmruntime.lineage import BranchState
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.owned_session import OwnedSession
from branchpoint_vmruntime.storage import digests
from branchpoint_vmruntime.storage.digests import FileDigest
from branchpoint_vmruntime.storage.package_stream import PackageReader
from branchpoint_vmruntime.storage.verifying import verify

_PATIENCE_S = 120.0
_DEEPEST = 10


@dataclass(kw_only=True)
class Outcome:
    """What came of one attempt. `struck` is the step the fault was at; "" if there is none such.

    `error` is what the operation ended with; `wrong` is what should not be, nothing if all is well.
    `before` are the checkpoints that were on record then, `added` those since by what they are,
    unless nobody was left to tell.
    """

    op: str
    kind: str
    at: int | str
    struck: str = ""
    error: str = ""
    wrong: str = ""
    steps: list[str] = field(default_factory=list[str])
    reported: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    before: list[str] = field(default_factory=list[str])
    added: dict[str, str] | None = None
    seconds: float = 0.0


def remember_digests(home: Home) -> None:
    """Have files that others are links to, and that nobody has written since, be read once only."""
    read, known = digests.file_digest, dict[tuple[int, int, int], FileDigest]()

    def digest(path: Path) -> FileDigest:
        facts = path.stat()
        file = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
        return known.get(file) or known.setdefault(file, read(path))

    for path in [*home.layers.glob("*/*/*"), *home.images.glob("*/*.*")]:
        digest(path)
    digests.file_digest = digest


def on_record(home: Home) -> dict[str, str]:
    """The checkpoints on record in a home, by their ids, and what they are."""
    with Journal.read(home.database) as journal:
        return {str(each.id): str(each.kind) for each in journal.every_checkpoint()}


def _nothing_untold(outcome: Outcome, known: dict[str, str]) -> None:
    """Nothing came to be that was not reported, but for what there was no time to report.

    And but for what an operation saved before it failed at something else: that stays.
    """
    told = {name for name, _ in outcome.reported}
    if "imported" in told:
        return
    first = outcome.steps.index(outcome.struck) if outcome.struck else 0
    before = outcome.at - 1 if isinstance(outcome.at, int) else first
    recorded = any(step.startswith(RECORDED) for step in outcome.steps[: max(0, before)])
    added = outcome.added
    if added is None:
        added = {id_: kind for id_, kind in known.items() if id_ not in outcome.before}
        if recorded:
            return
    # Of some faults the steps do not tell what was recorded before.
    unknown = outcome.kind not in (Kind.KILL, Kind.FULL, Kind.EIO, Kind.DEAD)
    stays = OPERATIONS[outcome.op].stays if recorded or unknown else ()
    untold = {id_: kind for id_, kind in added.items() if id_ not in told and kind not in stays}
    assert not untold, f"on record, and never reported: {untold}"


async def carry_on(session: OwnedSession) -> None:
    """Of a session whose machines were killed in the middle, every branch can be taken up again."""
    for branch in session.branches():
        await _hear_of_its_end(branch)
        if branch.state in (BranchState.LOST, BranchState.PARKED):
            await session.resume(branch.name)
        if branch.state is not BranchState.DROPPED:
            ran = await (await session.awake(branch.name)).run("print(open(value).read() == value)")
            assert ran.text.strip() == "True", ran


async def _hear_of_its_end(branch: OwnedBranch) -> None:
    """Of a machine that was killed its session hears a moment later; one that answers was not."""
    if branch.state is not BranchState.LIVE:
        return
    with contextlib.suppress(MachineError):
        await branch.ping(timeout_s=_PATIENCE_S)
        return
    deadline = time.monotonic() + _PATIENCE_S
    while branch.state is BranchState.LIVE:
        assert time.monotonic() < deadline, f"{branch.name} has no machine and is not lost"
        await asyncio.sleep(0.02)


async def goes_on(op: str, scene: Scene, outcome: Outcome) -> None:
    """The session after an error: as it was, and what it does next is saved whole."""
    session = scene.session
    _records_are_there(scene.home)
    _nothing_untold(outcome, {})
    # What cannot be removed now is swept later.
    if outcome.kind == Kind.DEAD or outcome.struck.startswith(("os.remove", "os.rmdir")):
        scene.unswept |= _half_made(scene.home)
    await _nothing_is_half_made(scene)
    value = await scene.held()
    allowed = {value for name, value in outcome.reported if name == "current"}
    assert value in (allowed or {scene.value, KEPT}), (value, scene.value, outcome.reported)
    await OPERATIONS[op].settle(scene)
    assert [b.state for b in session.branches() if b.state is not BranchState.DROPPED] == [
        BranchState.LIVE
    ]
    value = await scene.held()
    after = await session.checkpoint("after")
    await session.rollback(after, safety=False)
    assert await scene.held() == value
    for name, expected in outcome.reported:
        if name not in ("current", "removed"):
            await _peeked(session, name, expected)
    if len(session.path(after)) > _DEEPEST:
        await session.rollback(KEPT, safety=False)
        await session.remove([c for c in session.checkpoints() if c.label != KEPT])


async def _nothing_is_half_made(scene: Scene) -> None:
    """A flat image is made in a thread, which nobody can call off; it goes by itself."""
    deadline = time.monotonic() + _PATIENCE_S
    while left := _half_made(scene.home) - scene.unswept:
        assert time.monotonic() < deadline, left
        await asyncio.sleep(0.02)


async def _peeked(session: OwnedSession, checkpoint: str, expected: str) -> None:
    found = session.find(checkpoint)
    async with session.peek(found) as looked_into:
        ran = await looked_into.run("print(value, open(value).read())")
        assert ran.text.split() == [expected, expected], (found.label, ran)


async def looked(home: Home, out: Path, outcome: Outcome) -> None:
    """AssertionError with what is wrong with a home after an attempt."""
    sweep(home)
    began = time.monotonic()
    while running_machines(home):
        assert time.monotonic() < began + _PATIENCE_S, "a machine has outlived its owner"
        await asyncio.sleep(0.02)
    assert leaks(home) == []
    assert sweep(home) == []
    _records_are_there(home)
    _nothing_left(home)
    found = await verify(home)
    assert found.whole, found
    assert not found.strays, found.strays
    reported = outcome.reported
    _exported(out, outcome)
    known = on_record(home)
    _nothing_untold(outcome, known)
    with Journal.read(home.database) as journal:
        keys = {record.key for record in journal.sessions()}
    if outcome.op == "import":
        assert (IMPORTED in keys) >= any(name == "imported" for name, _ in reported)
        if IMPORTED not in keys:
            return
        await _answers(home, IMPORTED, outcome)
        return
    checkpoints = [name for name, _ in reported if name not in ("current", "removed", "exported")]
    assert set(known) >= set(checkpoints) - _removed(outcome), "what was reported is gone"
    assert not set(known) & _removed(outcome), "what was removed is back"
    await _answers(home, KEY, outcome)


async def _answers(home: Home, key: str, outcome: Outcome) -> None:
    """The session carries on, with what it should hold; all that was reported can be gone to."""
    async with Runtime(home) as runtime, runtime.session(QUIET, key=key, fresh=False) as session:
        if outcome.op == "open":
            # Whether it came to a fresh machine or not, what there was is there.
            paused = next(b for b in session.branches() if b.state is BranchState.PAUSED)
            await session.switch(paused.name)
        elif session.current.state is not BranchState.PAUSED:
            await session.resume()
        value = await held(session)
        expected = [value for name, value in outcome.reported if name == "current"]
        assert not expected or value == expected[-1], (value, outcome.reported)
        for branch in session.branches():
            # Whoever had it, it is to be had here.
            if branch.name == LENT and outcome.op in OF_CLOSED:
                await session.resume(LENT)
        for name, wanted in outcome.reported:
            if name not in ("current", "removed", "exported", "imported"):
                await _peeked(session, name, wanted)
    assert leaks(home) == []


def _removed(outcome: Outcome) -> set[str]:
    return {value for name, value in outcome.reported if name == "removed"}


def _exported(out: Path, outcome: Outcome) -> None:
    file = out / EXPORTED
    assert file.exists() >= any(name == "exported" for name, _ in outcome.reported)
    if file.exists():
        with file.open("rb") as source:
            assert PackageReader(source).package.layers
    if outcome.kind != Kind.KILL:
        assert not [path for path in out.iterdir() if path != file], list(out.iterdir())


def _records_are_there(home: Home) -> None:
    with Journal.read(home.database) as journal:
        for each in journal.every_checkpoint():
            folder = home.layers / (each.session or "base") / each.id
            assert folder.is_dir(), f"{each.label} is on record and has no files"


def _half_made(home: Home) -> set[Path]:
    # By os.walk, which does not mind folders that go meanwhile.
    return {
        Path(folder, name)
        for folder, folders, files in os.walk(home.root)
        for name in (*folders, *files)
        if name.endswith(".part") and "images" not in Path(folder).parts
    }


def _nothing_left(home: Home) -> None:
    """Nothing but what is on record."""
    assert not _half_made(home), _half_made(home)
    with Journal.read(home.database) as journal:
        there = (*journal.sessions(), *journal.removed_sessions())
        sessions = {str(record.id) for record in there}
        known = {(str(c.session or "base"), str(c.id)) for c in journal.every_checkpoint()}
    there = {(p.parent.name, p.name) for p in home.layers.glob("*/*")}
    assert there == known, there ^ known
    for place in (home.live, home.flat, home.run):
        left = [path.name for path in place.iterdir() if not path.name.startswith(".")]
        assert left == [], (place, left)
    for place in (home.layers, home.root / "sessions"):
        if place.exists():
            names = {path.name for path in place.iterdir()} - {"base"}
            assert names <= sessions, (place, names - sessions)

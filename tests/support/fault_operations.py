"""The operations in which faults are tried: how each is prepared, done, and got over."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from branchpoint_vmruntime import Manifest, Runtime
from branchpoint_vmruntime.borrowers import AWAITED
from branchpoint_vmruntime.borrowing import lend_on_record, settle
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.progress import SilentProgress
from branchpoint_vmruntime.lineage import (
    BranchState,
    Checkpoint,
    CheckpointKind,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.owned_session import OwnedSession
from branchpoint_vmruntime.removal import remove_session
from branchpoint_vmruntime.storage.collecting import collect
from branchpoint_vmruntime.storage.exporting import export_checkpoint, newest_checkpoint
from branchpoint_vmruntime.storage.importing import import_file
from branchpoint_vmruntime.storage.retention import StoreBudgets

KEY = "faults"
KEPT = "kept"
LENT = "lent"
QUIET = Manifest.parse("idle_pause: off")
IMPORTED = "imported"
EXPORTED = "exported.bp"

Report = Callable[[str, str], None]


@dataclass(kw_only=True)
class Scene:
    """What an operation works on, and whom it tells what is done: a checkpoint and its value.

    `value` is what the kernel holds, in a variable and on its disk, `far` what that of another does
    that a branch was lent to, or the key of that one, `borrower`. `unswept` is what could not be
    removed in an attempt before, and goes with the next sweep.
    """

    home: Home
    out: Path
    report: Report
    package: Path
    opened: OwnedSession | None = None
    value: str = KEPT
    far: str = ""
    borrower: SessionRecord | None = None
    extra: list[Checkpoint] = field(default_factory=list[Checkpoint])
    unswept: set[Path] = field(default_factory=set[Path])

    @property
    def session(self) -> OwnedSession:
        """The session, which must be open."""
        assert self.opened is not None
        return self.opened

    async def set(self, value: str) -> None:
        """Have the current branch hold a value."""
        self.value = value
        code = f"import os\nvalue = {value!r}\nopen(value, 'w').write(value)\nos.sync()"
        ran = await self.session.current.run(code)
        assert ran.status == "ok", ran

    async def held(self) -> str:
        """What the current branch holds, as its memory and its disk tell alike."""
        return await held(self.session)


async def held(session: OwnedSession) -> str:
    """What the current branch of a session holds, as its memory and its disk tell alike."""
    code = "open('/proc/sys/vm/drop_caches', 'w').write('3')\nprint(value, open(value).read())"
    ran = await (await session.awake()).run(code)
    assert ran.status == "ok", ran
    value, on_disk = ran.text.split()
    assert value == on_disk, (value, on_disk)
    return value


async def _nothing(_scene: Scene) -> None:
    return


async def _checkpoint(scene: Scene) -> None:
    saved = await scene.session.checkpoint("new")
    scene.report(saved.id, scene.value)


async def _fork(scene: Scene) -> None:
    report = await scene.session.fork(1, names=["child"])
    scene.report(report.origin.id, scene.value)
    if report.failures:
        raise report.failures[0].error


async def _rollback(scene: Scene) -> None:
    report = await scene.session.rollback(KEPT)
    if report.safety is not None:
        scene.report(report.safety.id, scene.value)
    scene.report("current", KEPT)


async def _pause(scene: Scene) -> None:
    report = await scene.session.pause()
    scene.report(report.checkpoint.id, scene.value)
    scene.report("current", scene.value)


async def _before_resume(scene: Scene) -> None:
    await _pause(scene)


async def _resume(scene: Scene) -> None:
    await scene.session.resume()


async def _before_keep(scene: Scene) -> None:
    await scene.session.fork(1, names=["other"])


async def _keep(scene: Scene) -> None:
    report = await scene.session.keep("other")
    for branch in report.parked:
        scene.report(branch.record.head, scene.value)
    scene.report("current", scene.value)


async def _one_branch(scene: Scene) -> None:
    """Back to one branch, the first."""
    session = scene.session
    first = next(b for b in session.branches() if b.name == "main")
    if session.current is not first:
        await session.switch(first.name)
    others = [b for b in session.branches() if b is not first]
    await session.drop([b.name for b in others if b.state is not BranchState.DROPPED])


async def _before_lending(scene: Scene) -> None:
    await scene.session.fork(1, names=[LENT])


async def _lend(scene: Scene) -> None:
    await scene.session.lend(LENT, f"{scene.out}/{time.monotonic_ns()}.ipynb")
    scene.report(scene.session.branch(LENT).record.head, scene.value)


async def _nobody_comes(scene: Scene) -> None:
    """The branch is here again as it was lent, or was not lent at all."""
    for mark in scene.home.root.glob(f"sessions/*/{AWAITED}"):
        mark.unlink()
    session = scene.session
    if session.branch(LENT).state is not BranchState.LIVE:
        await session.resume(LENT)
    ran = await session.branch(LENT).run("print(value)")
    assert ran.text.strip() == scene.value, ran
    await _one_branch(scene)


async def _before_giving_back(scene: Scene) -> None:
    """The branch has gone on in another notebook, which was closed."""
    await _before_lending(scene)
    to = await scene.session.lend(LENT, f"{scene.out}/{time.monotonic_ns()}.ipynb")
    async with Runtime(scene.home) as runtime, runtime.session(QUIET, key=to.key) as there:
        scene.far = f"far{time.monotonic_ns()}"
        code = f"value = {scene.far!r}\nopen(value, 'w').write(value)\nos.sync()"
        assert (await there.current.run(code)).status == "ok"
        scene.extra = [(await there.pause()).checkpoint]


async def _give_back(scene: Scene) -> None:
    scene.report(scene.extra[0].id, scene.far)
    await scene.session.resume(LENT)


async def _gone_on(scene: Scene) -> None:
    """It is here again as it was left there, and this notebook goes on from there."""
    session = scene.session
    if session.branch(LENT).state is not BranchState.LIVE:
        await session.resume(LENT)
    ran = await session.branch(LENT).run("print(value)")
    assert ran.text.strip() == scene.far, ran
    await session.rollback(scene.extra[0], safety=False)
    await _one_branch(scene)


async def _before_lending_on_record(scene: Scene) -> None:
    """A session that nobody has open, with a branch beside the one it is on."""
    async with (
        Runtime(scene.home) as runtime,
        runtime.session(QUIET, key=KEY, fresh=False) as session,
    ):
        await session.awake()
        await session.fork(1, names=[LENT])
        scene.extra = [(await session.pause(LENT)).checkpoint]
        await session.pause()


async def _lend_on_record(scene: Scene) -> None:
    scene.report(scene.extra[0].id, KEPT)
    lender = scene.extra[0].session or ""
    await lend_on_record(scene.home, lender, LENT, f"{scene.out}/{time.monotonic_ns()}.ipynb")


async def _before_borrowing(scene: Scene) -> None:
    await _before_lending_on_record(scene)
    scene.far = f"{scene.out}/{time.monotonic_ns()}.ipynb"
    scene.borrower = await lend_on_record(scene.home, scene.extra[0].session or "", LENT, scene.far)


async def _borrow(scene: Scene) -> None:
    """The notebook that continues the branch is opened, works, saves it at its end, and is gone."""
    scene.report(scene.extra[0].id, KEPT)
    async with Runtime(scene.home) as runtime, runtime.session(QUIET, key=scene.far) as there:
        ran = await there.current.run("open('far', 'w').write('far')\nvalue = 'far'")
        assert ran.status == "ok", ran
        saved = (await there.pause()).checkpoint
        scene.report(saved.id, "far")


async def _before_taking_back(scene: Scene) -> None:
    await _before_borrowing(scene)
    await _borrow(scene)


async def _take_back(scene: Scene) -> None:
    settle(scene.home)


async def _remove_borrower(scene: Scene) -> None:
    assert scene.borrower is not None
    await asyncio.to_thread(remove_session, scene.home, scene.borrower.id)


async def _before_removal(scene: Scene) -> None:
    scene.extra = [await scene.session.checkpoint(label) for label in ("one", "two")]
    await scene.session.rollback(KEPT, safety=False)
    scene.value = KEPT


async def _remove(scene: Scene) -> None:
    for gone in await scene.session.remove(scene.extra):
        scene.report("removed", gone.id)


async def _export(scene: Scene) -> None:
    def write() -> None:
        with Journal.read(scene.home.database) as journal:
            record = journal.session_by_key(KEY)
            assert record is not None
            newest = newest_checkpoint(journal, record)
        file = scene.out / EXPORTED
        export_checkpoint(scene.home, record, newest, file, progress=SilentProgress())

    await asyncio.to_thread(write)
    scene.report("exported", EXPORTED)


async def _import(scene: Scene) -> None:
    def read() -> str:
        made = import_file(scene.home, scene.package, progress=SilentProgress(), name=IMPORTED)
        return made.checkpoint.id

    scene.report(await asyncio.to_thread(read), KEPT)
    scene.report("imported", IMPORTED)


async def _before_collection(scene: Scene) -> None:
    for place in (scene.home.layers, scene.home.flat, scene.home.live):
        stray = next(it for it in scene.home.layers.iterdir() if it.name != "base").name
        folder = place / stray / "0123456789ab.part"
        folder.mkdir(parents=True)
        (folder / "memory").write_bytes(b"left")


async def _collect(scene: Scene) -> None:
    found = await collect(scene.home, budgets=StoreBudgets(checkpoints=2))
    for removal in found.removals:
        if removal.kind == "checkpoint":
            scene.report("removed", removal.path.name)


async def _open(scene: Scene) -> None:
    async with Runtime(scene.home) as runtime, runtime.session(key=KEY) as session:
        assert (await session.current.run("print(1)")).text.strip() == "1"


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One of them. `within` a session that is open, or else on a home that nobody has open.

    `stays` is what it may have saved of the machine, which runs on, before it failed.
    """

    do: Callable[[Scene], Awaitable[None]]
    within: bool = True
    stays: Sequence[CheckpointKind] = ()
    prepare: Callable[[Scene], Awaitable[None]] = _nothing
    settle: Callable[[Scene], Awaitable[None]] = _nothing


OPERATIONS = {
    "checkpoint": Operation(do=_checkpoint),
    "fork": Operation(do=_fork, settle=_one_branch, stays=[CheckpointKind.FORK_POINT]),
    "rollback": Operation(do=_rollback, stays=[CheckpointKind.SAFETY]),
    "pause": Operation(do=_pause, stays=[CheckpointKind.PAUSED]),
    "resume": Operation(do=_resume, prepare=_before_resume),
    "keep": Operation(
        do=_keep, prepare=_before_keep, settle=_one_branch, stays=[CheckpointKind.PARKED]
    ),
    "lend": Operation(
        do=_lend, prepare=_before_lending, settle=_nobody_comes, stays=[CheckpointKind.PAUSED]
    ),
    "return": Operation(do=_give_back, prepare=_before_giving_back, settle=_gone_on),
    "remove": Operation(do=_remove, prepare=_before_removal),
    "lend-closed": Operation(do=_lend_on_record, within=False, prepare=_before_lending_on_record),
    "borrow": Operation(
        do=_borrow, within=False, prepare=_before_borrowing, stays=[CheckpointKind.PAUSED]
    ),
    "take-back": Operation(do=_take_back, within=False, prepare=_before_taking_back),
    "rm-borrower": Operation(do=_remove_borrower, within=False, prepare=_before_taking_back),
    "export": Operation(do=_export, within=False),
    "import": Operation(do=_import, within=False),
    "gc": Operation(do=_collect, within=False, prepare=_before_collection),
    "open": Operation(do=_open, within=False),
}
# Those of a branch that goes to and fro between sessions that nobody else has open.
OF_CLOSED = ("lend-closed", "borrow", "take-back", "rm-borrower")

"""`python -P -m tests.support.fault_driver LENDER WORK`: operations with a fault at a step of each.

Reads lines of attempts as JSON, `[[OPERATION, KIND, AT], ...]`, and answers each line with a list
of what came of them, as `Outcome` says. `AT` is the number of the step, or what is in its name; 0
stands for one after another until there are no more. Attempts are processes forked from this one,
on homes that are copied from one made at the beginning; what is on the disk afterwards is looked at
by another. Errors in what a session does are tried in one and the same session, line by line.
"""

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tests.support.fault_checks import (
    Outcome,
    carry_on,
    goes_on,
    looked,
    on_record,
    remember_digests,
)
from tests.support.fault_operations import EXPORTED, KEPT, KEY, OPERATIONS, QUIET, Scene
from tests.support.faults import Faults, Kind
from tests.support.homes import lend_base, lend_images

from branchpoint_vmruntime import Runtime
from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.progress import SilentProgress
from branchpoint_vmruntime.leaks import running_machines
from branchpoint_vmruntime.storage.exporting import export_checkpoint

Tell = Callable[[Any], None]


def main() -> None:
    """See above."""
    lender, work = Path(sys.argv[1]), Path(sys.argv[2])
    driver = Driver(Home(lender, lender / "run"), work)
    driver.furnish()
    for line in sys.stdin:
        tries = [Attempt(op=op, kind=Kind(kind), at=at) for op, kind, at in json.loads(line)]
        told = json.dumps([asdict(outcome) for outcome in driver.attempts(tries)])
        sys.stdout.write(f"{told}\n")
        sys.stdout.flush()


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """An operation, what happens in it, and at which step."""

    op: str
    kind: Kind
    at: int | str

    def each(self) -> Iterator["Attempt"]:
        """Itself, or if it is of every step one of each."""
        yield from [self] if self.at else (replace(self, at=at) for at in itertools.count(1))

    @property
    def leaves_session(self) -> bool:
        """Whether it is in a session which then goes on."""
        return OPERATIONS[self.op].within and self.kind not in (Kind.KILL, Kind.QEMU)


class Driver:
    """Makes homes, and has attempts made in them."""

    def __init__(self, lender: Home, work: Path) -> None:
        self._lender = lender
        self._work = work
        self._template = _home(work / "template")
        self._bare = _home(work / "bare")
        self._package = work / EXPORTED
        self._count = 0

    def furnish(self) -> None:
        """Make the home that others are copied from, and the file that is imported."""
        for home in (self._template, self._bare):
            lend_images(self._lender, home)
            lend_base(self._lender, home)
        said = list(_in_child(lambda tell: asyncio.run(self._furnish()), _nobody))
        assert said == [], said
        remember_digests(self._template)

    async def _furnish(self) -> None:
        async with (
            Runtime(self._template) as runtime,
            runtime.session(QUIET, key=KEY) as session,
        ):
            scene = self._scene(self._template, _nobody)
            scene.opened = session
            await scene.set(KEPT)
            kept = await session.checkpoint(KEPT)
            for _ in range(3):
                await session.rollback(KEPT)
            await session.pause()
            await asyncio.to_thread(
                export_checkpoint,
                self._template,
                session.record,
                kept,
                self._package,
                progress=SilentProgress(),
            )

    def attempts(self, tries: Sequence[Attempt]) -> list[Outcome]:
        """What came of each."""
        outcomes = self._in_one_session([it for it in tries if it.leaves_session])
        for attempt in [it for it in tries if not it.leaves_session]:
            for each in attempt.each():
                outcomes.append(self._alone(each))
                if not outcomes[-1].struck:
                    break
        return outcomes

    def _alone(self, attempt: Attempt) -> Outcome:
        """One attempt, whose process may be killed; then a look at what it left."""
        began, outcome = time.monotonic(), _of(attempt)
        home = self._copy(empty=attempt.op == "import")
        for told in _in_child(lambda tell: self._try_alone(home, attempt, tell), _take(outcome)):
            if told != -signal.SIGKILL or attempt.kind is not Kind.KILL:
                outcome.wrong = f"{outcome.wrong}\nattempt: {told}"
        self._look(home, outcome)
        outcome.seconds = round(time.monotonic() - began, 2)
        _show(outcome)
        return outcome

    def _try_alone(self, home: Home, attempt: Attempt, tell: Tell) -> None:
        scene = self._scene(home, lambda name, value: tell({"reported": [name, value]}))
        faults = _watching(home, scene.out, tell)

        async def work() -> None:
            if not OPERATIONS[attempt.op].within:
                await _faulted(attempt, scene, faults, tell)
                return
            async with (
                Runtime(home) as runtime,
                runtime.session(QUIET, key=KEY, fresh=False) as scene.opened,
            ):
                await _faulted(attempt, scene, faults, tell)
                if attempt.kind is Kind.QEMU:
                    await carry_on(scene.session)

        asyncio.run(work())

    def _in_one_session(self, tries: Sequence[Attempt]) -> list[Outcome]:
        """Errors at one step after another, each in the session as the one before left it."""
        outcomes: list[Outcome] = []
        if tries:
            home = self._copy(empty=False)
            failed = list(
                _in_child(
                    lambda tell: self._try_in_one_session(home, tries, tell),
                    lambda told: outcomes.append(Outcome(**told)),
                )
            )
            # Each was looked at already; what it all came to is now.
            last = _of(tries[-1])
            last.wrong, last.added = "\n".join(map(str, failed)), {}
            self._look(home, last)
            outcomes += [last] if last.wrong else []
        return outcomes

    def _try_in_one_session(self, home: Home, tries: Sequence[Attempt], tell: Tell) -> None:
        now = _of(tries[0])
        scene = self._scene(home, lambda name, value: now.reported.append((name, value)))
        faults = _watching(home, scene.out, _nobody)

        async def work() -> None:
            nonlocal now
            async with (
                Runtime(home) as runtime,
                runtime.session(QUIET, key=KEY, fresh=False) as scene.opened,
            ):
                for of_op in tries:
                    for attempt in of_op.each():
                        began, now = time.monotonic(), _of(attempt)
                        try:
                            await _faulted(attempt, scene, faults, _take(now))
                            await goes_on(attempt.op, scene, now)
                        except Exception:
                            now.wrong = traceback.format_exc()
                        now.seconds = round(time.monotonic() - began, 2)
                        tell(asdict(now))
                        _show(now)
                        if now.wrong:
                            return
                        if not now.struck:
                            break

        asyncio.run(work())

    def _look(self, home: Home, outcome: Outcome) -> None:
        """Note in the outcome what of a home that nobody has open is not as it should be."""

        def look(_tell: Tell) -> None:
            asyncio.run(looked(home, home.root.parent / "out", outcome))

        for told in _in_child(look, _nobody):
            outcome.wrong = f"{outcome.wrong}\nafterwards: {told}"
        if not outcome.wrong:
            shutil.rmtree(home.root.parent)

    def _scene(self, home: Home, report: Callable[[str, str], None]) -> Scene:
        return Scene(home=home, out=home.root.parent / "out", report=report, package=self._package)

    def _copy(self, *, empty: bool) -> Home:
        self._count += 1
        home = _home(self._work / f"try-{self._count}")
        (home.root.parent / "out").mkdir()
        original = self._bare.root if empty else self._template.root
        # Layers never change once they are there.
        subprocess.run(["cp", "-a", "--link", original, home.root.parent], check=True)
        for path in [*home.root.glob("*.db*"), home.root / "sessions", home.cache]:
            if path.exists():
                _make_own(path, original / path.name)
        return home


def _home(folder: Path) -> Home:
    root = folder / "home"
    folder.mkdir(parents=True)
    return Home(root, root / "run")


def _make_own(path: Path, original: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
        shutil.copytree(original, path)
    else:
        path.unlink()
        shutil.copy2(original, path)


def _watching(home: Home, out: Path, tell: Tell) -> Faults:
    def kill_machines() -> None:
        for machine in running_machines(home):
            with contextlib.suppress(ProcessLookupError):
                os.kill(machine.pid, signal.SIGKILL)

    def last_words(faults: Faults) -> None:
        steps, struck = list(faults.steps), faults.struck
        tell({"steps": steps, "struck": struck, "error": "", "added": None})

    faults = Faults(home.root, out, kill_machines=kill_machines, last_words=last_words)
    faults.install()
    return faults


async def _faulted(attempt: Attempt, scene: Scene, faults: Faults, tell: Tell) -> None:
    """Do the operation with the fault, and tell what it ended with."""
    operation = OPERATIONS[attempt.op]
    if operation.within:
        await scene.session.awake()
        await scene.set(f"v{time.monotonic_ns()}")
    await operation.prepare(scene)
    before = on_record(scene.home)
    tell({"before": list(before)})
    faults.arm(attempt.kind, attempt.at)
    error = ""
    try:
        await operation.do(scene)
    except BranchpointError as failed:
        error = f"{type(failed).__name__}: {failed}"
    finally:
        faults.disarm()
        now = on_record(scene.home)
        added = {id_: kind for id_, kind in now.items() if id_ not in before}
        tell({"steps": faults.steps, "struck": faults.struck, "error": error, "added": added})


def _show(outcome: Outcome) -> None:
    """For whoever waits for every step."""
    what = f"{outcome.op}, {outcome.kind} at {outcome.at} ({outcome.struck}; {outcome.error})"
    sys.stderr.write(f"{what}: {outcome.wrong or 'well'}\n")


def _of(attempt: Attempt) -> Outcome:
    return Outcome(op=attempt.op, kind=attempt.kind, at=attempt.at)


def _nobody(*_: object) -> None:
    return


def _take(outcome: Outcome) -> Callable[[dict[str, Any]], None]:
    def take(told: dict[str, Any]) -> None:
        if "reported" in told:
            outcome.reported.append(tuple(told["reported"]))
        elif "before" in told:
            outcome.before = told["before"]
        else:
            outcome.steps, outcome.struck = told["steps"], told["struck"]
            outcome.error, outcome.added = told["error"], told["added"]

    return take


def _in_child(work: Callable[[Tell], None], take: Callable[[Any], None]) -> Iterator[str | int]:
    """Do something in a fork of this process; what went wrong: its words, or its signal."""
    reading, writing = os.pipe()
    turn = threading.Lock()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os.setsid()
        status = 1
        try:
            work(lambda told: _write(writing, told, turn))
            status = 0
        except BaseException:
            _write(writing, {"failed": traceback.format_exc()}, turn)
        finally:
            os._exit(status)
    os.close(writing)
    failed = ""
    with open(reading, "rb") as told:  # noqa: PTH123
        for line in told:
            said = json.loads(line)
            if "failed" in said:
                failed = said["failed"]
            else:
                take(said)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if failed or code:
        yield failed or code


def _write(fd: int, told: Any, turn: threading.Lock) -> None:
    line = json.dumps(told).encode() + b"\n"
    # Last words may come from any thread, in the middle of another's.
    with turn:
        while line:
            line = line[os.write(fd, line) :]


if __name__ == "__main__":
    main()

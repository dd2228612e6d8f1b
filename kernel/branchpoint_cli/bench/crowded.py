"""`ls` and `gc` in a home with 1 000 checkpoints, against a plain look at the same files and rows.

The home is made up: real records and folders, but a page of memory in each and no machine.
"""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from branchpoint_cli.bench.figures import Figure
from branchpoint_vmruntime.errors import MachineError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchRecord,
    BranchState,
    Checkpoint,
    CheckpointCost,
    CheckpointId,
    CheckpointKind,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage.rows import checkpoint_to_row
from branchpoint_vmruntime.memory.dirty import PAGE
from branchpoint_vmruntime.memory.layer import PageRun, write_layer
from branchpoint_vmruntime.overview import overview
from branchpoint_vmruntime.storage.collecting import collect
from branchpoint_vmruntime.storage.digests import write_digests
from branchpoint_vmruntime.storage.retention import StoreBudgets
from branchpoint_vmruntime.store import Layer, MachineFacts

SESSIONS = 10
OF_EACH = 100
# What branches stand on goes under no budget, so the other half is what rollbacks left.
KEPT = OF_EACH // 2
BASE = CheckpointId("base0000")
MEMORY_BYTES = 1 << 20
FACTS = MachineFacts(
    qemu="made up",
    accelerator="tcg",
    cpu="max",
    memory_mib=1,
    vcpus=1,
    image="made up",
    protocol=1,
    tsc_khz=1,
)
_PLAIN = "walk of its files, SQL count"
_REMOVED = "removing the same folders and rows"


def crowded(scratch: Path, runs: int) -> list[Figure]:
    """All of it. Not for the event loop's thread."""
    template = Home(scratch / "crowded", scratch / "crowded" / "run")
    made_up(template)
    times: Mapping[str, list[float]] = defaultdict(list)
    for run in range(runs):
        ours, plain = (_copied(template, f"{run}-{name}") for name in ("ours", "plain"))
        _measure(ours, plain, times)
        for home in (ours, plain):
            shutil.rmtree(home.root)
    shutil.rmtree(template.root)
    return listed_and_collected(times)


def _measure(ours: Home, plain: Home, times: Mapping[str, list[float]]) -> None:
    times["look"].append(_timed(lambda: _look(plain)))
    times["ls"].append(_timed(lambda: _list(ours)))
    times["command"].append(_timed(lambda: _command(ours, "ls")))
    times["help"].append(_timed(lambda: _command(ours, "--help")))
    times["dry"].append(_timed(lambda: _collect(ours, dry=True)))
    times["gc"].append(_timed(lambda: _collect(ours, dry=False)))
    times["remove"].append(_timed(lambda: _remove(plain)))


def listed_and_collected(times: Mapping[str, Sequence[float]]) -> list[Figure]:
    """In ms, each against the least that has to be read or removed.

    >>> names = ("ls", "look", "command", "help", "dry", "gc", "remove")
    >>> [figure.ratio for figure in listed_and_collected(dict.fromkeys(names, [2.0]))]
    [1.0, 1.0, 1.0, 1.0]
    """
    count, going = SESSIONS * OF_EACH, SESSIONS * (OF_EACH - KEPT)
    rows = (
        ("`ls`", "ls", "look", _PLAIN),
        ("`branchpoint ls`, the whole command", "command", "help", "`branchpoint --help`"),
        (f"`gc --dry-run`, {going} to go", "dry", "look", _PLAIN),
        (f"`gc`, {going} go", "gc", "remove", _REMOVED),
    )
    return [
        Figure(
            name=f"{name}, {count} checkpoints",
            unit="ms",
            values=tuple(times[ours]),
            floor_name=floor_name,
            floor=tuple(times[floor]),
        )
        for name, ours, floor, floor_name in rows
    ]


def made_up(home: Home) -> None:
    """Sessions that are closed, each on a branch of half its checkpoints, the rest beside that."""
    home.ensure()
    now = datetime.now(UTC)
    with Journal.open(home.database) as journal:
        base = _facts(BASE, None, None, CheckpointKind.BASE, now)
        journal.add_checkpoint(base, advance=None)
        every = [base]
        for number in range(SESSIONS):
            session = SessionId(f"crowded-{number:02}")
            journal.add_session(
                SessionRecord(id=session, key=f"/made/up/{number}.ipynb", created_at=now)
            )
            names = [CheckpointId(f"{number:02}{place:04}") for place in range(OF_EACH)]
            for place, name in enumerate(names):
                kind = CheckpointKind.USER if place < KEPT else CheckpointKind.SAFETY
                parent = names[min(place, KEPT) - 1] if place else BASE
                moment = now - timedelta(minutes=OF_EACH - place)
                every.append(_facts(name, session, parent, kind, moment))
            journal.put_branch(
                BranchRecord(
                    session=session,
                    name=BranchName("main"),
                    index=0,
                    parent=None,
                    origin=BASE,
                    head=BASE,
                    state=BranchState.PARKED,
                    created_at=now,
                )
            )
    _put_on_record(home, every)
    for checkpoint in every:
        _write(Layer(home.layers / (checkpoint.session or "base") / checkpoint.id))


def _put_on_record(home: Home, every: Sequence[Checkpoint]) -> None:
    """All in one transaction: the journal's own has to be on the disk for each."""
    rows = [checkpoint_to_row(each) for each in every if each.parent is not None]
    columns = ", ".join(rows[0])
    places = ", ".join(f":{name}" for name in rows[0])
    with closing(sqlite3.connect(home.database)) as database, database:
        database.executemany(f"INSERT INTO checkpoints ({columns}) VALUES ({places})", rows)
        newest = f"{KEPT - 1:04}"
        database.execute("UPDATE branches SET head = substr(session, -2) || ?", (newest,))


def _facts(
    name: CheckpointId,
    session: SessionId | None,
    parent: CheckpointId | None,
    kind: CheckpointKind,
    created_at: datetime,
) -> Checkpoint:
    return Checkpoint(
        id=name,
        session=session,
        parent=parent,
        label=f"label-{name}",
        note="",
        kind=kind,
        branch=BranchName("main"),
        created_at=created_at,
        key=FACTS.key,
        cost=CheckpointCost(memory_bytes=PAGE),
    )


def _write(layer: Layer) -> None:
    """Files as a checkpoint leaves them, with a page in each of the large ones."""
    layer.folder.mkdir(mode=0o700, parents=True)
    page = memoryview(os.urandom(PAGE))
    write_layer(layer.memory, MEMORY_BYTES, [(PageRun(3, 1, zero=False), page)])
    for path in (layer.devices, layer.folder / "disk-000.qcow2"):
        path.write_bytes(page)
    layer.write_facts(FACTS, "made up")
    write_digests(layer)


def _copied(template: Home, name: str) -> Home:
    root = template.root.with_name(f"crowded-{name}")
    shutil.copytree(template.root, root)
    return Home(root, root / "run")


def _timed(what: Callable[[], object]) -> float:
    began = time.monotonic()
    what()
    return 1000 * (time.monotonic() - began)


def _list(home: Home) -> None:
    found = sum(session.checkpoints for session in overview(home).sessions)
    _require(found, SESSIONS * OF_EACH)


def _collect(home: Home, *, dry: bool) -> None:
    found = asyncio.run(collect(home, budgets=StoreBudgets(checkpoints=KEPT), dry_run=dry))
    _require(len(found.removals), SESSIONS * (OF_EACH - KEPT))


def _command(home: Home, word: str) -> None:
    subprocess.run(
        [sys.executable, "-P", "-m", "branchpoint_cli", word],
        env=os.environ | {"BRANCHPOINT_HOME": str(home.root)},
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _look(home: Home) -> None:
    for folder, folders, files in os.walk(home.root):
        for name in (*folders, *files):
            Path(folder, name).lstat()
    with closing(sqlite3.connect(home.database)) as database:
        database.execute("SELECT session, count(*) FROM checkpoints GROUP BY session").fetchall()


def _remove(home: Home) -> None:
    going = (CheckpointKind.SAFETY.value,)
    with closing(sqlite3.connect(home.database)) as database, database:
        rows = database.execute("SELECT session, id FROM checkpoints WHERE kind = ?", going)
        folders = [home.layers / session / name for session, name in rows]
        database.execute("DELETE FROM checkpoints WHERE kind = ?", going)
    for folder in folders:
        shutil.rmtree(folder)


def _require(found: int, expected: int) -> None:
    if found != expected:
        raise MachineError(f"{found} were found, and {expected} are there", hint="nothing counts")

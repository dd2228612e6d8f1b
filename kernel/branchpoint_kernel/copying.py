"""`%put` and `%get`: files into a machine and out of it, one after another, whole or not at all."""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from branchpoint_kernel.commands import Copy, Put
from branchpoint_kernel.outside_rendering import copied_line
from branchpoint_kernel.places import place, shown
from branchpoint_kernel.told import Told
from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.outside.sources import Stamp, stamp
from branchpoint_vmruntime.outside.transfer import confined
from branchpoint_vmruntime.session import Session

IN, OUT = "→", "←"
_PATTERN = "*?["
_ANY_DEPTH = "**"


@dataclass(frozen=True, slots=True)
class Step:
    """How far a copy has come: which of its files, how many bytes of it, of how many if known."""

    arrow: str
    name: str
    number: int
    files: int
    done_bytes: int
    of_bytes: int | None


OnStep = Callable[[Step], None]


def nobody_watches(_step: Step) -> None:
    """For a copy whose progress is shown nowhere."""


@dataclass(frozen=True, slots=True)
class _Way:
    """One file's way between its place on the host and its place in the machine."""

    name: str
    host: Path
    guest: str


@dataclass(frozen=True, slots=True)
class _Copied:
    way: _Way
    path: str
    size_bytes: int
    took_ms: float


class Copying:
    """Copies files for cells, and for code in machines, which reaches the folder alone.

    `folder` is the notebook's: what is named without a place is in it.
    """

    def __init__(self, session: Session, folder: Path) -> None:
        self._session = session
        self._folder = folder
        # What code in machines has made, and so may replace.
        self._made_inside: dict[Path, Stamp | None] = {}

    async def copy(
        self, command: Copy, branch: str | None, on_step: OnStep = nobody_watches
    ) -> Told:
        """Copy; `branch` is that of the code that asks, None for a cell.

        UsageError or TransferError in words; the files before the one that failed are there.
        """
        puts = isinstance(command, Put)
        within = None if branch is None else self._folder
        if puts:
            ways = self._put_ways(command, await self._sources(command, within))
        else:
            ways = self._get_ways(command)
        if within is not None and not puts:
            for way in ways:
                self._require_new(way)
        machine = self._session.current if branch is None else self._session.branch(branch)
        copied: list[_Copied] = []
        for number, way in enumerate(ways, 1):
            step = Step(IN if puts else OUT, way.name, number, len(ways), 0, None)
            on_step(step)
            copied.append(await self._copy_one(machine, way, step, on_step, within))
            if not puts and branch is not None:
                made = Path(copied[-1].path)
                self._made_inside[made] = stamp(made)
        lines = [
            copied_line(
                IN if puts else OUT,
                it.way.name,
                f"{machine.name}:{it.path}" if puts else str(self._shown(Path(it.path))),
                it.size_bytes,
                it.took_ms,
            )
            for it in copied
        ]
        files = [
            {
                "host": str(it.way.host) if puts else it.path,
                "machine": it.path if puts else it.way.guest,
                "bytes": it.size_bytes,
                "duration_ms": it.took_ms,
            }
            for it in copied
        ]
        return Told("put" if puts else "get", lines, {"machine": machine.name, "files": files})

    async def _copy_one(
        self, machine: Branch, way: _Way, step: Step, on_step: OnStep, within: Path | None
    ) -> _Copied:
        def progress(done_bytes: int, of_bytes: int | None) -> None:
            on_step(Step(step.arrow, step.name, step.number, step.files, done_bytes, of_bytes))

        channel, transfers = machine.streams, self._session.outside.transfers
        if step.arrow == IN:
            done = await transfers.put(
                channel, way.host, way.guest, progress=progress, within=within
            )
        else:
            done = await transfers.get(
                channel, way.guest, way.host, progress=progress, within=within
            )
        return _Copied(way, done.path, done.size_bytes, round(done.seconds * 1000, 1))

    async def _sources(self, command: Copy, within: Path | None) -> list[Path]:
        found: list[Path] = []
        for name in command.files:
            # To look for what is named like that may take long.
            found += await asyncio.to_thread(self._found, name, within)
        return found

    def _put_ways(self, command: Copy, hosts: Sequence[Path]) -> list[_Way]:
        _require_distinct([path.name for path in hosts])
        target = command.to or ""
        if len(hosts) > 1 and target and not target.endswith("/"):
            target += "/"
        return [_Way(path.name, path, target) for path in hosts]

    def _get_ways(self, command: Copy) -> list[_Way]:
        names = [PurePosixPath(file).name for file in command.files]
        _require_distinct(names)
        place = self._folder if command.to is None else self._place(command.to)
        into = len(names) > 1 or command.to is None or command.to.endswith("/")
        return [
            _Way(name, place / name if into else place, guest)
            for name, guest in zip(names, command.files, strict=True)
        ]

    def _found(self, name: str, within: Path | None) -> list[Path]:
        if within is None:
            path = self._place(name)
            anchor = Path(path.anchor)
        else:
            # What is outside must not even be looked at: that too says what is there.
            path, anchor = confined(Path(name), within), Path(os.path.realpath(within))
            if name.count(_ANY_DEPTH) > 1:
                raise UsageError(f"{name!r} has more than one {_ANY_DEPTH}")
        if not any(sign in name for sign in _PATTERN) or path.exists():
            return [path]
        matches = anchor.glob(str(path.relative_to(anchor)))
        found = sorted(p for p in matches if _may_be_seen(p, within) and p.is_file())
        if not found:
            raise UsageError(f"no file is named like {name!r}", hint=f"looked in {self._folder}")
        return found

    def _place(self, name: str) -> Path:
        return place(self._folder, name)

    def _shown(self, path: Path) -> Path:
        return shown(self._folder, path)

    def _require_new(self, way: _Way) -> None:
        """No machine is to be trusted with what is there already."""
        host = confined(way.host, self._folder)
        there = host / way.name if host.is_dir() else host
        made = self._made_inside.get(there)
        if there.exists() and (made is None or made != stamp(there)):
            raise UsageError(
                f"code in a machine does not replace {self._shown(there)}",
                hint="write it at the top level of a cell, which may",
            )


def _may_be_seen(path: Path, within: Path | None) -> bool:
    if within is None:
        return True
    try:
        confined(path, within)
    except UsageError:
        return False
    return True


def _require_distinct(names: Sequence[str]) -> None:
    for name in names:
        if not name or name == "..":
            raise UsageError("a file is to be named, and this names a folder")
        if names.count(name) > 1:
            raise UsageError(
                f"two of these files are called {name}", hint="copy them one by one, with --to"
            )

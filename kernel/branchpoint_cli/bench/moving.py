"""Export and import of a checkpoint, against `tar` and `zstd` on the same files."""

import asyncio
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from branchpoint_cli.bench.figures import Figure
from branchpoint_cli.bench.machines import MB, Bench
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.progress import SilentProgress
from branchpoint_vmruntime.memory.flat import sync_file
from branchpoint_vmruntime.storage.exporting import Exported, export_checkpoint
from branchpoint_vmruntime.storage.importing import import_file

Made = TypeVar("Made")

RUNS = 5
# As much as a notebook with some data: half of it packs, half of it does not.
BLOCK = "import os; block = os.urandom(64 << 20); text = b'some text that repeats ' * (3 << 20)"
PACK = ("zstd", "-3", "-T0", "-q", "-f", "-o")
UNPACK = ("zstd", "-d", "-c", "-q")


async def moves(bench: Bench) -> list[Figure]:
    """A checkpoint out of this home and into another; both ways end with the bytes on the disk."""
    await bench.session.current.run(BLOCK)
    checkpoint = await bench.session.checkpoint()
    home, record = Home.default(), bench.session.record
    chain = [
        f"{each.session or 'base'}/{each.id}" for each in reversed(bench.session.path(checkpoint))
    ]
    file, packed = bench.scratch / "moved.bp", bench.scratch / "moved.tar.zst"
    other, unpacked = bench.scratch / "other", bench.scratch / "unpacked"
    times: dict[str, list[float]] = {"export": [], "import": [], "pack": [], "unpack": []}

    def export() -> Exported:
        return export_checkpoint(home, record, checkpoint, file, progress=SilentProgress())

    def take_in() -> None:
        import_file(_furnished(other, home), file, progress=SilentProgress())

    with_zstd = shutil.which("zstd") is not None
    data_mb = 0.0
    for _ in range(min(bench.runs, RUNS)):
        file.unlink(missing_ok=True)
        made = await _timed(export, times["export"])
        data_mb = made.package.data_bytes / MB
        await _timed(take_in, times["import"])
        if with_zstd:
            await _timed(lambda: _pack(home.layers, chain, packed), times["pack"])
            await _timed(lambda: _unpack(packed, unpacked), times["unpack"])
        for folder in (other, unpacked):
            shutil.rmtree(folder, ignore_errors=True)
    sizes_mb = [path.stat().st_size / MB for path in (file, packed) if path.exists()]
    for path in (file, packed):
        path.unlink(missing_ok=True)
    rows = (
        ("export", "export", "pack", f"tar, zstd {' '.join(PACK[1:3])}"),
        ("import", "import", "unpack", "zstd -d, tar"),
    )
    figures = [
        Figure(
            name=f"{what} of {data_mb:.0f} MB, verified",
            unit="MB/s",
            values=tuple(data_mb / it for it in times[ours]),
            floor_name=floor_name,
            floor=tuple(data_mb / it for it in times[floor]),
        )
        for what, ours, floor, floor_name in rows
    ]
    return [
        *figures,
        Figure(
            name="size of an exported file",
            unit="MB",
            values=tuple(sizes_mb[:1]),
            floor_name=rows[0][3] if with_zstd else "",
            floor=tuple(sizes_mb[1:]),
        ),
    ]


async def _timed(what: Callable[[], Made], times: list[float]) -> Made:
    began = time.monotonic()
    made = await asyncio.to_thread(what)
    times.append(time.monotonic() - began)
    return made


def _furnished(root: Path, home: Home) -> Home:
    """Another home on this host, with the same image."""
    made = Home(root, root / "run")
    root.mkdir(mode=0o700)
    made.images.symlink_to(home.images.resolve())
    if home.tools.exists():
        made.tools.symlink_to(home.tools.resolve())
    shutil.copytree(home.cache, made.cache, ignore=shutil.ignore_patterns("apt*"))
    return made


def _pack(folder: Path, names: Sequence[str], target: Path) -> None:
    _piped(("tar", "-C", str(folder), "-S", "-cf", "-", *names), (*PACK, str(target)))
    sync_file(target)


def _unpack(source: Path, folder: Path) -> None:
    folder.mkdir()
    _piped((*UNPACK, str(source)), ("tar", "-C", str(folder), "-xf", "-"))
    for path in folder.rglob("*"):
        sync_file(path)


def _piped(first: Sequence[str], second: Sequence[str]) -> None:
    with subprocess.Popen(first, stdout=subprocess.PIPE) as source:
        subprocess.run(second, stdin=source.stdout, check=True)
        if source.stdout is not None:
            source.stdout.close()
        if source.wait() != 0:
            raise subprocess.CalledProcessError(source.returncode, first)

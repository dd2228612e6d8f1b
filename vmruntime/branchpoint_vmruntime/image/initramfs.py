"""The initramfs: the first program, the modules it loads, and the guest's own Python packages."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from branchpoint_vmruntime.errors import ImageBuildError
from branchpoint_vmruntime.image.cpio import Entry, character_device, folder, pack, regular
from branchpoint_vmruntime.image.modules import load_order

MODULES = ("virtio_mmio", "virtio_blk", "virtio_console", "overlay")
INIT = Path(__file__).with_name("init.sh")
PROBE_INIT = Path(__file__).with_name("probe.sh")
LIBRARY = "branchpoint/lib"
_FOLDERS = ("bin", "dev", "modules", "new", "proc", "ro", "rw", "sys")


def pack_initramfs(kernel_tree: Path, busybox: Path, guest_sources: Sequence[Path]) -> bytes:
    """The archive for machines; `guest_sources` are package folders, named as they are imported."""
    modules = load_order(kernel_tree, MODULES)
    order = "".join(f"{module.name}\n" for module in modules)
    return pack(
        [
            *_base(busybox, INIT),
            regular("modules/order", order.encode()),
            *(regular(f"modules/{module.name}.ko", module.content) for module in modules),
            folder("branchpoint"),
            folder(LIBRARY),
            *(entry for source in guest_sources for entry in _package(source)),
        ]
    )


def pack_probe(busybox: Path) -> bytes:
    """A tiny archive whose first program says that it runs, and ends: to try an accelerator."""
    return pack(_base(busybox, PROBE_INIT))


def _base(busybox: Path, init: Path) -> list[Entry]:
    return [
        *(folder(name) for name in _FOLDERS),
        character_device("dev/console", 5, 1),
        character_device("dev/null", 1, 3, 0o666),
        regular("bin/busybox", busybox.read_bytes(), 0o755),
        regular("init", init.read_bytes(), 0o755),
    ]


def _package(source: Path) -> Iterator[Entry]:
    if not source.is_dir():
        raise ImageBuildError(f"the guest's package {source} is not there")
    yield folder(f"{LIBRARY}/{source.name}")
    for path in sorted(source.rglob("*")):
        name = f"{LIBRARY}/{source.name}/{path.relative_to(source).as_posix()}"
        if "__pycache__" in path.parts:
            continue
        if path.is_dir():
            yield folder(name)
        elif path.is_file():
            yield regular(name, path.read_bytes(), 0o755 if path.suffix == ".sh" else 0o644)

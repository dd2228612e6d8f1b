"""Kernel modules out of a kernel package: which are needed, and in which order to load them."""

import gzip
import lzma
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from branchpoint_vmruntime.errors import ImageBuildError

SIGNATURE = b"~Module signature appended~\n"
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


@dataclass(frozen=True, slots=True)
class Module:
    """A kernel module: its name as the kernel says it, and its bytes without a signature."""

    name: str
    content: bytes


def load_order(tree: Path, wanted: Sequence[str]) -> tuple[Module, ...]:
    """The wanted modules and what they need, each after what it needs, without what is built in."""
    files = {module_name(path.name): path for path in sorted((tree / "lib/modules").rglob("*.ko*"))}
    built_in = {
        module_name(Path(line).name)
        for path in (tree / "lib/modules").glob("*/modules.builtin")
        for line in path.read_text().splitlines()
    }
    order: dict[str, Module] = {}

    def add(name: str) -> None:
        if name in order or name in built_in:
            return
        if name not in files:
            raise ImageBuildError(f"the guest's kernel has no module {name}")
        content = read_module(files[name])
        for needed in dependencies(content):
            add(needed)
        order[name] = Module(name, without_signature(content))

    for name in wanted:
        add(module_name(name))
    return tuple(order.values())


def module_name(file: str) -> str:
    """The name of the module in a file.

    >>> module_name("virtio-rng.ko.xz")
    'virtio_rng'
    """
    return file.partition(".ko")[0].replace("-", "_")


def read_module(path: Path) -> bytes:
    """A module's bytes, unpacked."""
    content = path.read_bytes()
    match path.suffix:
        case ".ko":
            return content
        case ".xz":
            return lzma.decompress(content)
        case ".gz":
            return gzip.decompress(content)
        case suffix:
            raise ImageBuildError(f"{path.name} is packed as {suffix}, which is not known here")


def dependencies(module: bytes) -> tuple[str, ...]:
    r"""The modules a module needs.

    >>> dependencies(b"\0depends=virtio,virtio-ring\0")
    ('virtio', 'virtio_ring')
    """
    match = _DEPENDS.search(module)
    names = match[1].decode().split(",") if match else []
    return tuple(module_name(name) for name in names if name)


def without_signature(module: bytes) -> bytes:
    """The module without its signature, which nothing requires and emulation is slow to check."""
    if not module.endswith(SIGNATURE):
        return module
    information = module[-len(SIGNATURE) - 12 : -len(SIGNATURE)]
    signature_bytes = int.from_bytes(information[8:], "big")
    body_bytes = len(module) - len(SIGNATURE) - 12 - signature_bytes
    return module[:body_bytes] if body_bytes >= 0 else module

"""What a notebook may ask for itself: `branchpoint.yaml` and its metadata, read and checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from branchpoint_vmruntime.budget import Budgets, IdlePause
from branchpoint_vmruntime.foundation import KERNEL_ARGV
from branchpoint_vmruntime.image.wanted import ImageSpec
from branchpoint_vmruntime.manifest.budgets import PriceList, read_budgets, read_prices
from branchpoint_vmruntime.manifest.embedded import embedded_fields
from branchpoint_vmruntime.manifest.idle import read_idle_pause
from branchpoint_vmruntime.manifest.image import read_image
from branchpoint_vmruntime.manifest.machine import read_argv, read_size
from branchpoint_vmruntime.manifest.nodes import Fields, Nodes, Said, text_of
from branchpoint_vmruntime.manifest.outside import read_egress, read_files, read_secrets
from branchpoint_vmruntime.manifest.store import read_store
from branchpoint_vmruntime.outside.facts import Limits, OutsideSpec
from branchpoint_vmruntime.spec import MachineSize
from branchpoint_vmruntime.storage.retention import StoreBudgets

FILE_NAME = "branchpoint.yaml"
_FIELDS = (
    "machine",
    "image",
    "kernel",
    "egress",
    "secrets",
    "files",
    "prices",
    "budgets",
    "idle_pause",
    "store",
)
NOTEBOOK_SUFFIX = ".ipynb"
_BESIDE = f"it belongs into {FILE_NAME} beside the notebook"
_BESIDE_ALONE = {
    "egress": f"{_BESIDE}, as a notebook must not open its own machine",
    "secrets": f"{_BESIDE}, as a notebook must not help itself to this computer's secrets",
    "files": f"{_BESIDE}, as a notebook must not help itself to this computer's files",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A machine's size, its kernel's command, and what a session may take, reach and spend."""

    size: MachineSize = field(default_factory=MachineSize)
    image: ImageSpec = field(default_factory=ImageSpec)
    kernel_argv: tuple[str, ...] = KERNEL_ARGV
    budgets: Budgets = field(default_factory=Budgets)
    idle_pause: IdlePause = field(default_factory=IdlePause)
    store: StoreBudgets = field(default_factory=StoreBudgets)
    outside: OutsideSpec = field(default_factory=OutsideSpec)

    @classmethod
    def load(cls, path: Path | str) -> "Manifest":
        """Read a manifest; for a notebook that it says itself, see `of_notebook`.

        ManifestError naming file and line if it says something that cannot be.
        """
        file = Path(path)
        if file.suffix == NOTEBOOK_SUFFIX:
            return cls.of_notebook(file, file.parent)
        return cls._of(_fields_of(file), file.parent)

    @classmethod
    def beside(cls, folder: Path) -> "Manifest":
        """The manifest in a folder; the default one if there is none."""
        file = folder / FILE_NAME
        return cls.load(file) if file.exists() else cls()

    @classmethod
    def of_notebook(cls, notebook: Path, folder: Path) -> "Manifest":
        """The manifest in a folder, with what the notebook's metadata says in place of its fields.

        It cannot say what would let somebody else's notebook reach this host or the network.
        """
        file = folder / FILE_NAME
        said: Mapping[str, Said] = _fields_of(file) if file.exists() else {}
        return cls._of({**said, **embedded_fields(notebook, _FIELDS, _BESIDE_ALONE)}, folder)

    @classmethod
    def parse(cls, text: str, *, name: str = FILE_NAME, folder: Path | None = None) -> "Manifest":
        """A manifest from its text; files it names are looked for in `folder`, or the current one.

        >>> Manifest.parse("machine: 1vcpu-2gb").size
        MachineSize(memory_mib=2048, vcpus=1)
        """
        return cls._of(_fields(text, name), folder or Path())

    @classmethod
    def _of(cls, said: Mapping[str, Said], folder: Path) -> "Manifest":
        priced = read_prices(*said["prices"]) if "prices" in said else PriceList(prices={})
        budgets, limits = Budgets(), Limits()
        if "budgets" in said:
            budgets, limits = read_budgets(*said["budgets"], prices=priced.prices)
        return cls(
            size=read_size(*said["machine"]) if "machine" in said else MachineSize(),
            image=read_image(*said["image"]) if "image" in said else ImageSpec(),
            kernel_argv=read_argv(*said["kernel"]) if "kernel" in said else KERNEL_ARGV,
            budgets=budgets,
            idle_pause=read_idle_pause(*said["idle_pause"])
            if "idle_pause" in said
            else IdlePause(),
            store=read_store(*said["store"]) if "store" in said else StoreBudgets(),
            outside=OutsideSpec(
                allow=read_egress(*said["egress"]) if "egress" in said else (),
                secrets=read_secrets(*said["secrets"], folder) if "secrets" in said else (),
                files=read_files(*said["files"]) if "files" in said else (),
                prices=priced.prices,
                currency=priced.currency,
                limits=limits,
            ),
        )


def _fields_of(file: Path) -> Mapping[str, Said]:
    return _fields(text_of(file), str(file))


def _fields(text: str, name: str) -> Mapping[str, Said]:
    nodes = Nodes(name)
    root = nodes.root(text)
    known: Fields = {} if root is None else nodes.fields(root, _FIELDS)
    return {field: (nodes, node) for field, node in known.items()}

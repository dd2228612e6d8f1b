"""What a notebook may ask for itself: `branchpoint.yaml`, read and checked."""

from dataclasses import dataclass, field
from pathlib import Path

from branchpoint_vmruntime.budget import Budgets, IdlePause
from branchpoint_vmruntime.errors import ManifestError
from branchpoint_vmruntime.foundation import KERNEL_ARGV
from branchpoint_vmruntime.image.wanted import ImageSpec
from branchpoint_vmruntime.manifest.budgets import PriceList, read_budgets, read_prices
from branchpoint_vmruntime.manifest.idle import read_idle_pause
from branchpoint_vmruntime.manifest.image import read_image
from branchpoint_vmruntime.manifest.machine import read_argv, read_size
from branchpoint_vmruntime.manifest.nodes import Nodes
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
        """Read a manifest.

        ManifestError naming file and line if it says something that cannot be.
        """
        file = Path(path)
        try:
            text = file.read_text("utf-8")
        except OSError as error:
            raise ManifestError(f"{file} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ManifestError(
                f"{file} cannot be read: it is not UTF-8 text (byte {error.start})"
            ) from error
        return cls.parse(text, name=str(file), folder=file.parent)

    @classmethod
    def beside(cls, folder: Path) -> "Manifest":
        """The manifest in a folder; the default one if there is none."""
        file = folder / FILE_NAME
        return cls.load(file) if file.exists() else cls()

    @classmethod
    def parse(cls, text: str, *, name: str = FILE_NAME, folder: Path | None = None) -> "Manifest":
        """A manifest from its text; files it names are looked for in `folder`, or the current one.

        >>> Manifest.parse("machine: 1vcpu-2gb").size
        MachineSize(memory_mib=2048, vcpus=1)
        """
        nodes = Nodes(name)
        root = nodes.root(text)
        if root is None:
            return cls()
        said = nodes.fields(root, _FIELDS)
        priced = read_prices(nodes, said["prices"]) if "prices" in said else PriceList(prices={})
        budgets, limits = Budgets(), Limits()
        if "budgets" in said:
            budgets, limits = read_budgets(nodes, said["budgets"], prices=priced.prices)
        idle = read_idle_pause(nodes, said["idle_pause"]) if "idle_pause" in said else IdlePause()
        here = folder or Path()
        return cls(
            size=read_size(nodes, said["machine"]) if "machine" in said else MachineSize(),
            image=read_image(nodes, said["image"]) if "image" in said else ImageSpec(),
            kernel_argv=read_argv(nodes, said["kernel"]) if "kernel" in said else KERNEL_ARGV,
            budgets=budgets,
            idle_pause=idle,
            store=read_store(nodes, said["store"]) if "store" in said else StoreBudgets(),
            outside=OutsideSpec(
                allow=read_egress(nodes, said["egress"]) if "egress" in said else (),
                secrets=read_secrets(nodes, said["secrets"], here) if "secrets" in said else (),
                files=read_files(nodes, said["files"]) if "files" in said else (),
                prices=priced.prices,
                currency=priced.currency,
                limits=limits,
            ),
        )

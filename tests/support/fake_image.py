"""Where the machines of a made-up session start: packages come from nowhere, and are counted."""

from collections.abc import Sequence
from dataclasses import replace

from branchpoint_vmruntime.errors import BranchpointError
from branchpoint_vmruntime.lineage import Checkpoint, CheckpointId, CheckpointKind
from branchpoint_vmruntime.start_image import BakeReport, Start


class FakeImage:
    """A StartImage. A test sets what is to go wrong, and what cannot be loaded."""

    def __init__(self, base: Checkpoint) -> None:
        self.error: BranchpointError | None = None
        self.refused = ""
        self.failed = ""
        self._base = base
        self._baked: list[Checkpoint] = []

    def start(self) -> Start:
        """The last that was baked."""
        chain = (*reversed(self._baked), self._base)
        return Start(checkpoint=chain[0], chain=chain, refused=self.refused, failed=self.failed)

    async def bake(self, named: Sequence[str]) -> BakeReport:
        """Every package is there at version 1.0."""
        if self.error is not None:
            raise self.error
        number = len(self._baked) + 1
        packages = tuple(f"{name}==1.0" for name in named)
        made = replace(
            self._base,
            id=CheckpointId(f"{number:012x}"),
            label=f"image-{number}",
            note=", ".join(packages),
            kind=CheckpointKind.USER,
        )
        self._baked.append(made)
        return BakeReport(
            checkpoint=made,
            packages=packages,
            left_out=("mine==0.1",),
            output="Successfully installed",
            total_ms=1840.0,
        )

    async def reset(self) -> Start:
        """None of them."""
        self._baked.clear()
        return self.start()

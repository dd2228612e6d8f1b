"""Shows and changes where fresh machines start, for commands."""

from typing import assert_never

from branchpoint_kernel.image_commands import AddToImage, ImageCommand, ResetImage, ShowImage
from branchpoint_kernel.image_rendering import baked_lines, start_lines, start_record
from branchpoint_kernel.told import Told
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.session import Session


class ImageOperations:
    """What `%image` does, in its turn."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def perform(self, command: ImageCommand, branch: str | None) -> Told:
        """Do it; `branch` is that of the code that asks, None for a cell."""
        image = self._session.image
        match command:
            case ShowImage():
                return self._told()
            case AddToImage():
                _require_cell(branch)
                report = await image.bake(command.packages)
                more = {
                    **start_record(image.start()),
                    "packages": list(report.packages),
                    "left_out": list(report.left_out),
                }
                return Told(
                    op="image",
                    lines=baked_lines(report),
                    more=more,
                    checkpoint=report.checkpoint,
                    phases_ms=report.checkpoint.cost.phases_ms,
                    total_ms=report.total_ms,
                )
            case ResetImage():
                _require_cell(branch)
                await image.reset()
                return self._told()
            case _:
                assert_never(command)

    def _told(self) -> Told:
        start = self._session.image.start()
        return Told("image", start_lines(start), start_record(start), start.checkpoint)


def _require_cell(branch: str | None) -> None:
    """UsageError if code in a machine asks, which could leave something for later machines."""
    if branch is not None:
        raise UsageError(
            "only a cell of the notebook may change where its fresh machines start; write it at "
            "the top level of a cell"
        )

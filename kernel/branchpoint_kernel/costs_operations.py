"""`%costs`: what branches and operations have cost, as a table, as charts, and as files."""

import asyncio
import importlib
from base64 import b64encode
from pathlib import Path

from branchpoint_kernel.commands import SaveCosts
from branchpoint_kernel.costs_files import NAME, saved_lines, write_costs
from branchpoint_kernel.costs_rendering import CostsTold, costs_lines, costs_record
from branchpoint_kernel.costs_told import put_together
from branchpoint_kernel.drawing import Picture, in_turn
from branchpoint_kernel.places import place, shown
from branchpoint_kernel.told import Told
from branchpoint_vmruntime.session import Session


class CostsOperations:
    """What is told of costs. `folder` is the notebook's: files are written into it."""

    def __init__(self, session: Session, folder: Path) -> None:
        self._session = session
        self._folder = folder

    def show(self) -> Told:
        """The table, and charts for whoever displays them."""
        told = self._told()
        return Told("costs", costs_lines(told), costs_record(told), picture=lambda: _picture(told))

    async def save(self, command: SaveCosts) -> Told:
        """Write two files: a row for each operation, and a row for each branch.

        UsageError if there is another file of that name, unless it is to be replaced. What an
        earlier `%costs` wrote is replaced in any case, so that a notebook can be run again.
        """
        told = self._told()
        target = place(self._folder, command.file)
        if command.file.endswith("/"):
            target /= NAME
        saved = await asyncio.to_thread(
            write_costs, told, self._session.checkpoints(), target, replaces=command.force
        )
        lines = saved_lines(saved, lambda path: str(shown(self._folder, path)))
        files = [str(file.path) for file in saved]
        return Told("costs", lines, {**costs_record(told), "files": files})

    def _told(self) -> CostsTold:
        session, outside = self._session, self._session.outside
        branches = session.branches()
        memories = {str(branch.name): branch.memory() for branch in branches}
        records = [branch.record for branch in branches]
        return put_together(
            records,
            session.checkpoints(),
            session.operations(),
            outside.costs.by_branch(session.record.id),
            lived_s=outside.spending.time_used_s,
            memory=memories.get,
            limits=outside.spending.standings(
                forks_made=sum(record.parent is not None for record in records)
            ),
            currency=outside.currency,
        )


async def _picture(told: CostsTold) -> Picture:
    """The charts for a display."""

    def drawn() -> Picture:
        # It takes most of a second to import, and few kernels are ever asked.
        charts = importlib.import_module("branchpoint_kernel.costs_charts")
        words = charts.in_words(told)
        data = {"text/plain": words, "image/png": b64encode(charts.png(told)).decode()}
        return Picture(data, {"image/png": {"width": charts.WIDTH_PIXELS, "alt": words}})

    return await in_turn(drawn, "the charts of what was spent")

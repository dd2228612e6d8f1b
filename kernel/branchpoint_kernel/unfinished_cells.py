"""Which cells run, and which were ended with their machine: told of, also by the next process."""

from pathlib import Path

from branchpoint_kernel.pump import Pump
from branchpoint_kernel.pumps import Pumps
from branchpoint_vmruntime.unfinished import keep_unfinished, unfinished


class UnfinishedCells:
    """Follows the cells of a notebook by the ids of their places in it.

    `folder` is the session's own; without one nothing is kept.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._running: dict[str, Pump] = {}
        # What ran when the process before this one ended was ended with it.
        self._died = frozenset[str]() if folder is None else frozenset(unfinished(folder))
        self._kept = self._died

    def died(self) -> tuple[str, ...]:
        """Those whose last run came to no end."""
        return tuple(sorted(self._died))

    def look(self, pumps: Pumps) -> bool:
        """See which run now. Whether others are told to have died than before."""
        # Of one that came to its end its kernel tells, before that kernel is gone.
        ended = {id_: pump for id_, pump in self._running.items() if pump.ended is not None}
        open_still = {id_ for id_, pump in ended.items() if id_ in _begun_in(pump)}
        running = {
            id_: pump
            for pump in pumps
            if pump.ended is None
            for id_ in _begun_in(pump, carried=pumps.is_current(pump))
        }
        before, self._died = self._died, (self._died | open_still) - running.keys()
        self._running = running
        kept = self._died | running.keys()
        if self._folder is not None and self._kept != kept:
            self._kept = kept
            keep_unfinished(self._folder, kept)
        return self._died != before


def _begun_in(pump: Pump, *, carried: bool = True) -> list[str]:
    """The cells whose end its kernel has told nothing of, neither by a reply nor by idle.

    What a fork carries on with is the cell of the branch it was forked from: not `carried`.
    """
    left_out = None if carried or pump.carried is None else pump.carried.request.id
    cells = (request.cell for request in pump.open.listing() if request.id != left_out)
    return [cell.id for cell in cells if cell.id and cell.count > 0]

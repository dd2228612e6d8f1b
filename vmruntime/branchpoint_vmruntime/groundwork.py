"""What sessions stand on, made when it is first needed: a manifest's image, a base checkpoint."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from branchpoint_vmruntime.base import base_key, make_base
from branchpoint_vmruntime.errors import DamagedError, HostError, IncompatibleError
from branchpoint_vmruntime.folder_lock import locked
from branchpoint_vmruntime.foundation import Foundation
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.build import ensure_image
from branchpoint_vmruntime.image.guest_image import GuestImage, find_image
from branchpoint_vmruntime.image.progress import Progress
from branchpoint_vmruntime.image.recipe import Recipe
from branchpoint_vmruntime.image.wanted import ImageSpec
from branchpoint_vmruntime.lineage import Checkpoint
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.store import LayerStore
from branchpoint_vmruntime.tools import Tools

LOOK_AGAIN_S = 0.2


class _InLoop:
    """A progress that may be told from any thread; whoever shows it hears of it in the loop's."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._loop = asyncio.get_running_loop()

    def step(self, title: str) -> None:
        """A step begins."""
        self._tell(lambda: self._progress.step(title))

    def advance(self, fraction: float) -> None:
        """The present step is this far."""
        self._tell(lambda: self._progress.advance(fraction))

    def done(self, summary: str) -> None:
        """The present step is over."""
        self._tell(lambda: self._progress.done(summary))

    def _tell(self, what: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(what)


def default_image(home: Home) -> GuestImage:
    """The image that every host has; HostError if it has not been built."""
    found = find_image(home, Recipe.default())
    if found is None:
        raise HostError(
            "the guest image has not been built on this host", hint="run `branchpoint setup`"
        )
    return found


async def image_for(home: Home, wanted: ImageSpec, tools: Tools, progress: Progress) -> GuestImage:
    """The image with those packages, built now if it is not there.

    The default one is not: that takes a set-up. ImageBuildError and StorageError leave nothing.
    """
    recipe = Recipe.of(wanted)
    if recipe == Recipe.default():
        return default_image(home)
    found = find_image(home, recipe)
    if found is not None:
        return found
    return await asyncio.to_thread(ensure_image, home, recipe, tools, _InLoop(progress))


def bases(home: Home) -> LayerStore:
    """Where base checkpoints are."""
    return LayerStore(home.layers / "base")


async def base_for(
    home: Home, journal: Journal, foundation: Foundation, progress: Progress
) -> Checkpoint:
    """The base checkpoint of a foundation, made by a cold boot if there is none."""
    found = _find_base(home, journal, foundation)
    if found is not None:
        return found
    async with _alone(home.layers, progress):
        # Whoever was before us may have made it.
        found = _find_base(home, journal, foundation)
        if found is not None:
            return found
        progress.step("first boot of its machines")
        work = home.live / f"boot-{secrets.token_hex(4)}"
        made = await make_base(bases(home), foundation, work)
        journal.add_checkpoint(made, advance=None)
        progress.done(f"{made.cost.memory_bytes >> 20} MB kept to start from")
        return made


def _find_base(home: Home, journal: Journal, foundation: Foundation) -> Checkpoint | None:
    found = journal.base(base_key(foundation))
    if found is None or not _loadable(bases(home), found, foundation):
        return None
    return found


def _loadable(store: LayerStore, base: Checkpoint, foundation: Foundation) -> bool:
    layer = store.layer(base.id)
    try:
        foundation.require_loadable(layer.facts(), layer)
    except (DamagedError, IncompatibleError):
        return False
    return layer.memory.exists()


@asynccontextmanager
async def _alone(folder: Path, progress: Progress) -> AsyncGenerator[None]:
    """Hold the folder for this process; a wait for another's boot holds up nothing else here."""
    waits = False
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(locked(folder, wait=False))
                break
            except BlockingIOError:
                if not waits:
                    progress.step("waiting for another first boot")
                waits = True
                await asyncio.sleep(LOOK_AGAIN_S)
        if waits:
            progress.done("its turn")
        yield

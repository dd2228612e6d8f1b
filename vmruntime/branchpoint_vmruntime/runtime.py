"""The runtime: what this host offers, brought together; sessions are opened from it."""

import asyncio
import secrets
import shutil
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from branchpoint_vmruntime.accelerator import Accelerator, choose_accelerator
from branchpoint_vmruntime.borrowers import HomeBorrowers
from branchpoint_vmruntime.borrowing import settle, take_up
from branchpoint_vmruntime.claiming import claim
from branchpoint_vmruntime.control_ops import ControlOps, handlers_for
from branchpoint_vmruntime.control_socket import ControlServer
from branchpoint_vmruntime.errors import HostError, StorageError
from branchpoint_vmruntime.exec_control import exec_upgrade
from branchpoint_vmruntime.foundation import Foundation
from branchpoint_vmruntime.groundwork import base_for, bases, default_image, image_for
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.host_facts import machine_facts
from branchpoint_vmruntime.image.build import ensure_image, ensure_initramfs
from branchpoint_vmruntime.image.guest_image import GuestImage
from branchpoint_vmruntime.image.progress import Progress, SilentProgress
from branchpoint_vmruntime.image.recipe import Recipe
from branchpoint_vmruntime.leaks import Leak, sweep
from branchpoint_vmruntime.ledger.ledger import Ledger
from branchpoint_vmruntime.lineage import Checkpoint, SessionRecord
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.manifest import Manifest
from branchpoint_vmruntime.memory.flat import FlatImages
from branchpoint_vmruntime.opening import open_session
from branchpoint_vmruntime.outside.outside import open_outside
from branchpoint_vmruntime.owned_session import OwnedSession
from branchpoint_vmruntime.ownership import Ownership
from branchpoint_vmruntime.register import Register
from branchpoint_vmruntime.removal import forgotten_unless_opened
from branchpoint_vmruntime.spec import Emulator
from branchpoint_vmruntime.storage.keeping import remember
from branchpoint_vmruntime.store import LayerStore
from branchpoint_vmruntime.tools import Tools, ensure_tools, find_tools
from branchpoint_vmruntime.workshop import Workshop

_GUEST_PACKAGES = ("branchpoint", "branchpoint_guest", "branchpoint_guestkernel")


class Runtime:
    """MicroVMs without a daemon. Enter it, open sessions, leave: every machine ends with it.

    A session is a tree of checkpoints and live branches, found again by its key::

        import asyncio
        from branchpoint_vmruntime import Manifest, Runtime

        async def main() -> None:
            async with Runtime() as runtime, runtime.session(Manifest()) as session:
                await session.current.run("numbers = iter(range(593, 700)); next(numbers)")
                loaded = await session.checkpoint("loaded")
                for branch in await session.fork(3, start=loaded):
                    print(branch.name, await branch.run("next(numbers)"), branch.cost.awake_ms)
                await session.rollback(loaded)
                print(await session.current.run("next(numbers)"))

        asyncio.run(main())

    What the host needs is installed by `prepare`, which `branchpoint setup` calls; entering only
    looks.
    """

    def __init__(self, home: Home | None = None) -> None:
        self.home = home or Home.default()
        self._stack = AsyncExitStack()
        self._journal: Journal | None = None
        self._ledger: Ledger | None = None
        self._tools: Tools | None = None

    @classmethod
    async def prepare(cls, home: Home | None = None, progress: Progress | None = None) -> None:
        """Install or build what is missing.

        Tools, guest image, base checkpoint. Skips what is there.
        """
        place, shown = home or Home.default(), progress or SilentProgress()
        place.ensure()
        tools = await asyncio.to_thread(ensure_tools, place, shown)
        await asyncio.to_thread(ensure_image, place, Recipe.default(), tools, shown)
        async with cls(place) as runtime:
            shown.step("accelerator")
            accelerator = await runtime.accelerator()
            shown.done(f"{accelerator.name}: {accelerator.reason}")
            shown.step("base checkpoint: one cold boot")
            base = await runtime.base(Manifest())
            shown.done(f"{base.id}, {base.cost.memory_bytes >> 20} MB")

    async def __aenter__(self) -> Self:
        """Look at the host. HostError says what is missing and how to get it."""
        self.home.ensure()
        self._tools = await asyncio.to_thread(find_tools, self.home)
        self._journal = self._stack.enter_context(Journal.open(self.home.database))
        self._ledger = Ledger.open(self.home.ledger)
        self._stack.callback(self._ledger.close)
        await asyncio.to_thread(self.sweep)
        self._stack.callback(settle, self.home)
        settle(self.home)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    def sweep(self) -> list[Leak]:
        """Remove what sessions whose owner has ended left behind; what was removed.

        Their machines and those's overlays, flat images, which are made again when needed, and the
        sockets their owners answered at. Checkpoints stay.
        """
        return sweep(self.home, thorough=False)

    @property
    def journal(self) -> Journal:
        """The lineage store."""
        if self._journal is None:
            raise _not_entered()
        return self._journal

    @property
    def ledger(self) -> Ledger:
        """What the machines of all sessions have done outside."""
        if self._ledger is None:
            raise _not_entered()
        return self._ledger

    def image(self) -> GuestImage:
        """The guest image; HostError if it has not been built."""
        return default_image(self.home)

    async def accelerator(self) -> Accelerator:
        """What machines run under, as tried on this host."""
        return await asyncio.to_thread(
            choose_accelerator, self.home, self._require_tools(), self.image()
        )

    async def foundation(
        self, manifest: Manifest, *, progress: Progress | None = None
    ) -> Foundation:
        """What every machine of the manifest's size stands on; its image is built if need be."""
        tools, shown = self._require_tools(), progress or SilentProgress()
        image = await image_for(self.home, manifest.image, tools, shown)
        accelerator = await self.accelerator()
        initramfs = await asyncio.to_thread(ensure_initramfs, image, guest_sources())
        facts = await asyncio.to_thread(
            machine_facts, tools, accelerator, manifest.size, image.digest
        )
        argv = (*tools.qemu.argv_prefix, *tools.qemu.firmware_args)
        return Foundation(
            emulator=Emulator(argv=argv, accelerator=accelerator.name),
            size=manifest.size,
            kernel=image.kernel,
            initramfs=initramfs.path,
            initramfs_digest=initramfs.digest,
            root=image.root,
            disk_template=image.disk_template,
            overlay_template=image.overlay_template,
            facts=facts,
            image_files=image.bound_to,
            kernel_argv=manifest.kernel_argv,
            unconfigured=bool(image.manifest.debian),
        )

    async def base(self, manifest: Manifest, *, progress: Progress | None = None) -> Checkpoint:
        """The base checkpoint for a manifest, made by a cold boot if there is none."""
        shown = progress or SilentProgress()
        foundation = await self.foundation(manifest, progress=shown)
        return await base_for(self.home, self.journal, foundation, shown)

    @asynccontextmanager
    async def session(
        self,
        manifest: Manifest | None = None,
        *,
        key: str | None = None,
        folder: Path | None = None,
        fresh: bool = True,
        owner: Ownership | None = None,
        progress: Progress | None = None,
    ) -> AsyncGenerator[OwnedSession]:
        """Open the session of that key, or a new one, with a fresh machine as its branch `main`.

        With `fresh` false it carries on as the branch it was last continued as: no machine is
        started then, unless there is no branch. What was live and was not saved is lost; `awake`
        resumes what was paused, and `switch` carries on from the last checkpoint of the rest.

        If another process owns the session of that key, a second one beside it is opened, unless it
        is to be carried on or owned alone: then that is a SessionBusyError, which says who has it.
        One that a branch was lent to begins as that branch, or carries on where it has come to.
        Nothing is left of a new one that cannot be opened.
        `folder` is where the files are that the manifest brings in: by default this process's.
        `owner` is what this process is to those who ask at the session's control socket. `progress`
        hears of what takes long before there is a machine: an image that is built, a first boot.
        """
        shown = progress or SilentProgress()
        chosen, ownership = manifest or Manifest(), owner or Ownership()
        foundation = await self.foundation(chosen, progress=shown)
        base = await base_for(self.home, self.journal, foundation, shown)
        wanted = key or f"script-{secrets.token_hex(6)}"
        alone = ownership.alone or not fresh
        with (
            claim(self.home, self.journal, wanted, alone=alone) as record,
            forgotten_unless_opened(self.home, self.journal, record) as opened,
        ):
            loan = await take_up(self.home, self.journal, record, fresh=fresh)
            workshop = self._workshop(record, foundation)
            remember(self.home.session(record.id), chosen.store)
            begins = fresh and not (loan and loan.resumes)
            register = Register(record, self.journal, base, chosen.store, fresh=begins, loan=loan)
            edge = open_outside(
                chosen.outside,
                ledger=self.ledger,
                view=register.view(),
                folder=self.home.session(record.id),
                files_from=folder or Path.cwd(),
                memory_bytes=chosen.budgets.memory_bytes,
            )
            try:
                async with (
                    edge as outside,
                    open_session(
                        register,
                        workshop,
                        outside,
                        chosen.budgets,
                        chosen.idle_pause,
                        HomeBorrowers(self.home),
                    ) as session,
                    ControlServer(
                        self.home.control(record.id),
                        session.answers,
                        upgrades={"exec": exec_upgrade(session, outside.stopping)},
                    ),
                ):
                    of_owner = handlers_for(register.as_found_now, outside.forwards, ownership)
                    session.answers.update(of_owner)
                    session.answers.update(ControlOps(session, ownership).handlers())
                    opened()
                    yield session
            finally:
                for place in (self.home.live, self.home.flat):
                    shutil.rmtree(place / record.id, ignore_errors=True)

    def _workshop(self, record: SessionRecord, foundation: Foundation) -> Workshop:
        """The folders of a session, rid of what an earlier owner left; StorageError."""
        live = self.home.live / record.id
        try:
            layers = LayerStore(self.home.layers / record.id)
            layers.sweep({c.id for c in self.journal.checkpoints(record.id)})
            shutil.rmtree(live, ignore_errors=True)
            live.mkdir(mode=0o700)
            return Workshop(
                foundation=foundation,
                bases=bases(self.home),
                layers=layers,
                flats=FlatImages(self.home.flat / record.id),
                live=live,
            )
        except OSError as error:
            raise StorageError(
                f"session {record.key!r} cannot be opened: {error}",
                hint="free some space on that disk, or check its permissions",
            ) from error

    def _require_tools(self) -> Tools:
        if self._tools is None:
            raise _not_entered()
        return self._tools


def _not_entered() -> HostError:
    return HostError("the runtime is not entered; use `async with Runtime() as runtime`")


def guest_sources() -> list[Path]:
    """The folders of the packages that run in the guest.

    Looked up, not imported: they are not for this side.
    """
    found: list[Path] = []
    for name in _GUEST_PACKAGES:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise HostError(f"package {name} is not installed", hint="install branchpoint again")
        found.append(Path(spec.origin).parent)
    return found

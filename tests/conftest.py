"""Fixtures as ready things: a home with an image and a base checkpoint, a kernel on it."""

import asyncio
import os
import shutil
import signal
from collections.abc import Generator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pytest
from jupyter_client.kernelspec import NoSuchKernel, get_kernel_spec
from tests.support import session_traces as traces
from tests.support.homes import lend_base, lend_images
from tests.support.live_kernel import (
    KERNEL,
    LiveKernel,
    children,
    is_qemu,
    live_kernel,
    qemu_processes,
    wait_until,
)
from tests.support.surroundings import foreign_kernel, foreign_module, settle

import branchpoint_vmruntime
from branchpoint_vmruntime import Manifest, Runtime
from branchpoint_vmruntime.home import Home

_OF_A_PAGE_S = 1200


def pytest_configure() -> None:
    """Have this checkout tested, wherever that is, and by Control-C stopped as at a terminal."""
    settle(os.environ)
    if wrong := foreign_module(branchpoint_vmruntime.__file__):
        raise pytest.UsageError(wrong)
    # Where the tests run in the background it would be passed over.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no worker is left with a long module at the end."""
    items.sort(key=lambda item: [item.get_closest_marker(it) is None for it in ("browser", "vm")])
    for item in items:
        # A server, a browser and machines are begun within the time of the first that needs them.
        if item.get_closest_marker("browser") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_OF_A_PAGE_S))


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Generator[Home]:
    """A home of the tests' own, with the images and the base checkpoint of this user's."""
    own = Home.default()
    try:
        spec = get_kernel_spec(KERNEL)
    except NoSuchKernel:
        pytest.fail("the kernelspec is not installed; run `branchpoint setup`")
    if wrong := foreign_kernel(spec.argv):
        pytest.fail(wrong)
    if not any(own.images.glob("*")):
        pytest.fail("there is no guest image; run `branchpoint setup`")
    root = tmp_path_factory.mktemp("home", numbered=True)
    made = Home(root, root / "run")
    lend_images(own, made)
    lend_base(own, made)
    before = os.environ.get("BRANCHPOINT_HOME")
    os.environ["BRANCHPOINT_HOME"] = str(root)
    asyncio.run(_make_base(made))
    yield made
    if before is None:
        del os.environ["BRANCHPOINT_HOME"]
    else:
        os.environ["BRANCHPOINT_HOME"] = before
    # A kernel that has not ended its machines in time goes first, and they a moment later.
    wait_until(lambda: not _on_their_own(made))
    left = qemu_processes(root)
    # A run that is interrupted leaves processes of sessions: nobody's children, they would go on.
    for pid in (*traces.owners(made), *left):
        traces.end(pid, signal.SIGKILL)
    shutil.rmtree(root, ignore_errors=True)
    assert not left, f"tests left QEMU running: {left}"


def _on_their_own(home: Home) -> set[int]:
    """The machines that are of no process of a session."""
    owned = {machine for owner in traces.owners(home) for machine in children(owner)}
    return set(qemu_processes(home.root)) - owned


async def _make_base(home: Home) -> None:
    # Boots only if there was no base to lend, or none that this host can load.
    async with Runtime(home) as runtime:
        await runtime.base(Manifest())


@pytest.fixture
def kernel(home: Home, request: pytest.FixtureRequest, tmp_path: Path) -> Generator[LiveKernel]:
    """A fresh kernel in a session named after the test; it leaves no QEMU behind."""
    yield from _kernel_that_leaves_nothing(request.node.name, tmp_path)


@pytest.fixture(scope="module")
def shared_kernel(
    home: Home, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[LiveKernel]:
    """One kernel for all tests of a module that do not change each other's state."""
    yield from _kernel_that_leaves_nothing(request.node.name, tmp_path_factory.mktemp("cwd"))


def _kernel_that_leaves_nothing(session: str, cwd: Path) -> Generator[LiveKernel]:
    with live_kernel(session, cwd=cwd) as started:
        yield started
        machines = started.processes
    assert wait_until(lambda: not any(map(is_qemu, machines))), "a QEMU outlived its kernel"


class StartKernel(Protocol):
    """Starts further kernels, each for a `with` statement."""

    def __call__(self, session: str, **environment: str) -> AbstractContextManager[LiveKernel]: ...


@pytest.fixture
def start_kernel(home: Home, tmp_path: Path) -> StartKernel:
    """For tests that need more than one kernel, or one that they end themselves."""
    assert home.database.exists()

    def start(session: str, **environment: str) -> AbstractContextManager[LiveKernel]:
        return live_kernel(session, cwd=tmp_path, **environment)

    return start

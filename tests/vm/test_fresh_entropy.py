"""Futures share a past, not their entropy: what must be unique is, from the first read on."""

import pytest
from tests.support.live_kernel import LiveKernel

pytestmark = pytest.mark.vm

FORKS = ("a", "b", "c")

SOURCES = {
    "os.urandom": "os.urandom(16).hex()",
    "uuid4": "uuid.uuid4()",
    "secrets": "secrets.token_hex(16)",
    "getrandom": "os.getrandom(16).hex()",
    "the kernel's uuid": "open('/proc/sys/kernel/random/uuid').read().strip()",
    "a process of its own": "subprocess.check_output(['head', '-c16', '/dev/urandom']).hex()",
}
every_source = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())


@pytest.fixture(scope="module")
def saved(shared_kernel: LiveKernel) -> LiveKernel:
    """A kernel with a checkpoint `start`, whose generators have been used."""
    shared_kernel.run("import os, random, secrets, subprocess, uuid, numpy")
    shared_kernel.run(f"print(random.random(), numpy.random.rand(), {', '.join(SOURCES.values())})")
    shared_kernel.run("%checkpoint start")
    return shared_kernel


def fork(kernel: LiveKernel, code: str, *options: str) -> list[str]:
    """What an expression gives as the first thing ever run in each of three forks of `start`."""
    kernel.run(f"%fork 3 --from start --names {','.join(FORKS)} {' '.join(options)}")
    try:
        return list(kernel.values(code, FORKS).values())
    finally:
        kernel.run(f"%drop {' '.join(FORKS)}")


def go_back(kernel: LiveKernel, code: str) -> str:
    """What an expression gives as the first thing run after going back to `start`."""
    kernel.run("%rollback start --no-safety")
    return kernel.value(code)


@every_source
def test_entropy_differs_between_forks_and_from_their_origin_at_the_first_read(
    saved: LiveKernel, source: str
) -> None:
    values = [go_back(saved, source), *fork(saved, source)]
    assert len(set(values)) == 4, values


@every_source
def test_entropy_differs_after_each_rollback_at_the_first_read(
    saved: LiveKernel, source: str
) -> None:
    values = [go_back(saved, source) for _ in range(3)]
    assert len(set(values)) == 3, values


@pytest.mark.parametrize("draw", ["random.random()", "numpy.random.rand()"])
def test_generators_of_user_space_differ_between_forks(saved: LiveKernel, draw: str) -> None:
    values = [go_back(saved, draw), *fork(saved, draw)]
    assert len(set(values)) == 4, values


@pytest.mark.parametrize("draw", ["random.random()", "numpy.random.rand()"])
def test_generators_of_user_space_are_equal_in_forks_that_ask_for_it(
    saved: LiveKernel, draw: str
) -> None:
    values = [go_back(saved, draw), *fork(saved, draw, "--same-random")]
    assert len(set(values)) == 1, values


@pytest.mark.parametrize("draw", ["random.random()", "numpy.random.rand()"])
def test_a_rollback_goes_on_with_the_same_sequence(saved: LiveKernel, draw: str) -> None:
    sequence = f"[{draw} for _ in range(3)]"
    assert go_back(saved, sequence) == go_back(saved, sequence)


def test_sessions_start_with_generators_of_their_own(saved: LiveKernel, kernel: LiveKernel) -> None:
    kernel.run("import random")
    saved.run("%rollback base --no-safety")
    saved.run("import random")
    assert kernel.value("random.random()") != saved.value("random.random()")


def test_a_fork_says_that_it_reseeded(saved: LiveKernel) -> None:
    cell = saved.run("%fork 1 --from start --names told")
    saved.run("%drop told")
    assert "reseeded" in cell.text
    assert cell.record["reseeded"] is True

"""What was executing at a checkpoint: asked for at rest, and never at the checkpoint's expense."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.runtime.studio import Studio, studio

from branchpoint_vmruntime import testimony
from branchpoint_vmruntime.errors import MachineError
from branchpoint_vmruntime.lineage import Moment
from branchpoint_vmruntime.session import Witness
from branchpoint_vmruntime.testimony import hear

KNOWN = Moment(count=7)


@in_a_loop
async def test_a_checkpoint_holds_what_the_witness_of_its_branch_said(tmp_path: Path) -> None:
    asked: list[str] = []

    async def witness(branch: str) -> Moment:
        asked.append(branch)
        return KNOWN

    async with studio(tmp_path) as it:
        it.witness = witness
        saved = await it.publish(await it.draft())
        assert (saved.moment, asked) == (KNOWN, ["main"])


@pytest.mark.parametrize("resume", [True, False])
@in_a_loop
async def test_the_witness_is_heard_between_freeze_and_thaw(tmp_path: Path, resume: bool) -> None:  # noqa: FBT001
    heard_after: list[list[str]] = []

    async with studio(tmp_path) as it:

        async def witness(_branch: str) -> Moment:
            heard_after.append(it.asked())
            return KNOWN

        it.witness = witness
        await it.draft(resume=resume)
        assert heard_after == [["freeze"]]
        assert it.asked() == (["freeze", "thaw"] if resume else ["freeze"])


@in_a_loop
async def test_every_message_of_the_kernel_is_there_when_the_witness_is_heard(
    tmp_path: Path,
) -> None:
    async with studio(tmp_path) as it:
        seen: list[int] = []

        async def witness(_branch: str) -> Moment:
            seen.append(it.machine.kernel.received)
            return KNOWN

        it.witness = witness
        for _ in range(5):
            it.guest.speak([b"iopub", b"x"])
        await it.draft()
        assert seen == [it.guest.sent]
        assert it.guest.sent >= 5


@in_a_loop
async def test_a_slow_witness_keeps_no_cpu_waiting(tmp_path: Path) -> None:
    async with studio(tmp_path) as it:
        may_speak = asyncio.Event()

        async def witness(_branch: str) -> Moment:
            await may_speak.wait()
            return KNOWN

        it.witness = witness
        drafting = asyncio.create_task(it.draft())
        await it.qemu.reached["cont"].wait()
        assert it.asked() == ["freeze"]
        may_speak.set()
        await drafting
        await it.runs_on()


async def failing(_branch: str) -> Moment:
    """A witness that fails."""
    raise KeyError("nobody saw anything")


async def silent(_branch: str) -> Moment:
    """A witness that never says anything."""
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize("witness", [failing, silent])
@in_a_loop
async def test_a_witness_that_is_of_no_use_is_one_that_knows_nothing(
    monkeypatch: pytest.MonkeyPatch, witness: Witness
) -> None:
    monkeypatch.setattr(testimony, "WITNESS_TIMEOUT_S", 0.01)
    assert await hear(witness, "main") == Moment()


async def fail(it: Studio) -> None:
    """A capture that fails at the devices."""
    it.qemu.errors["xen-save-devices-state"] = "no"
    with pytest.raises(MachineError):
        await it.draft()


async def call_off(it: Studio) -> None:
    """A capture that is called off while the witness is heard."""
    drafting = asyncio.create_task(it.draft())
    await it.qemu.reached["cont"].wait()
    drafting.cancel()
    await asyncio.wait([drafting])
    assert drafting.cancelled()


@pytest.mark.parametrize("spoil", [fail, call_off])
@in_a_loop
async def test_a_capture_that_comes_to_nothing_does_not_wait_for_the_witness(
    tmp_path: Path, spoil: Callable[[Studio], Awaitable[None]]
) -> None:
    async with studio(tmp_path) as it:
        it.witness = silent
        await spoil(it)
        await it.runs_on()
        assert it.kept() == []

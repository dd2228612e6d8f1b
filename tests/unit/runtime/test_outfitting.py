"""A machine's outfit: to guestd, then to the kernel if it listens."""

import logging
from pathlib import Path

import pytest
from tests.support.front_end import in_a_loop
from tests.unit.runtime.machines import made_up

from branchpoint_vmruntime import outfitting
from branchpoint_vmruntime.errors import GuestRefusedError
from branchpoint_vmruntime.outside.facts import Outfit

OUTFIT = Outfit(environment={"KEY": "of the branch", "OLD": None}, files={"ca.pem": "text"})


@in_a_loop
async def test_an_outfit_goes_to_guestd_and_its_variables_to_the_kernel(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.replies |= {"outfit": {"lacking": []}, "environment": {"environment": True}}
        await it.machine.outfit(OUTFIT, timeout_s=120)
        first, second = it.guest.asked
        variables = {"KEY": "of the branch", "OLD": None}
        assert (first["op"], second["op"]) == ("outfit", "environment")
        assert first["environment"] == second["environment"] == variables


@in_a_loop
async def test_only_files_that_are_not_there_are_sent(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        outfit = Outfit(files={"ca.pem": "text", "there": "already"})
        it.guest.replies["outfit"] = {"lacking": ["ca.pem"]}
        await it.machine.outfit(outfit, timeout_s=120)
        first, second = it.guest.asked
        assert (first["files"], second["files"]) == ({}, {"ca.pem": "text"})
        assert first["digests"] == second["digests"]
        assert set(first["digests"]) == {"ca.pem", "there"}


@pytest.mark.parametrize("reply", [None, {"error": "no"}, {"environment": None}])
@in_a_loop
async def test_a_kernel_that_does_not_take_its_variables_is_noted_by_names_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    reply: dict[str, object] | None,
) -> None:
    monkeypatch.setattr(outfitting, "KERNEL_PATIENCE_S", 0.05)
    async with made_up(tmp_path) as it:
        it.guest.replies |= {"outfit": {"lacking": []}, "environment": reply}
        with caplog.at_level(logging.INFO):
            await it.machine.outfit(OUTFIT, timeout_s=120)
        assert "the kernel" in caplog.text
        assert "of the branch" not in caplog.text


@in_a_loop
async def test_an_outfit_that_guestd_refuses_is_an_error(tmp_path: Path) -> None:
    async with made_up(tmp_path) as it:
        it.guest.replies["outfit"] = {"error": "'../x' cannot name a file"}
        with pytest.raises(GuestRefusedError, match="cannot name a file"):
            await it.machine.outfit(OUTFIT, timeout_s=120)

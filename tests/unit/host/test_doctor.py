"""The doctor says what is there, what follows and what to do."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.host.conftest import MakeProgram

from branchpoint_vmruntime.doctor import (
    Diagnosis,
    Finding,
    Status,
    examine,
    examine_base,
    examine_cores,
    examine_device,
    examine_memory,
    examine_rights,
    examine_space,
)
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.host import Memory

GIB = 1 << 30


def by_name(diagnosis: Diagnosis) -> dict[str, Finding]:
    return {finding.name: finding for finding in diagnosis.findings}


def test_a_qemu_that_is_too_old_is_bad_and_says_what_to_do(
    home: Home, make_program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_program("qemu", "echo QEMU emulator version 5.2.0")
    monkeypatch.setenv("BRANCHPOINT_QEMU", str(old))
    diagnosis = examine(home)
    qemu = by_name(diagnosis)["qemu"]
    assert not diagnosis.healthy
    assert "5.2.0" in qemu.what
    assert "apt-get install" in qemu.action


def test_a_home_without_an_image_is_told_to_set_up(home: Home) -> None:
    findings = by_name(examine(home, has_base=lambda: False))
    assert findings["image"].status is Status.BAD
    assert findings["image"].action == "run: branchpoint setup"
    assert findings["accelerator"].what == "not tried"
    assert findings["base-checkpoint"].status is Status.WARN


def test_a_home_that_cannot_be_is_bad_and_the_rest_is_still_looked_at(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    findings = by_name(examine(Home(tmp_path / "file/home", tmp_path / "run")))
    assert findings["home"].status is Status.BAD
    assert "memory" in findings


def test_programs_read_the_same_as_people(home: Home) -> None:
    diagnosis = examine(home)
    read = json.loads(diagnosis.as_json())
    assert read["healthy"] == diagnosis.healthy
    assert [finding["name"] for finding in read["findings"]] == list(by_name(diagnosis))


@given(st.integers(0, 1 << 50))
def test_whatever_is_not_well_comes_with_what_to_do(size: int) -> None:
    for finding in (examine_space(size), examine_memory(Memory(size, size))):
        assert (finding.status is Status.OK) or finding.action


@given(st.integers(0, 1 << 45), st.integers(0, 1 << 45))
def test_more_room_is_never_worse(one: int, two: int) -> None:
    order = [Status.BAD, Status.WARN, Status.OK]
    less, more = sorted((one, two))
    assert order.index(examine_space(less).status) <= order.index(examine_space(more).status)


def test_a_device_that_opens_is_no_promise_and_a_closed_one_no_disaster() -> None:
    assert examine_device("").status is Status.OK
    closed = examine_device("this host has no /dev/kvm")
    assert closed.status is Status.WARN
    assert closed.follows == "machines are emulated"


def test_rights_are_told_as_they_are() -> None:
    assert examine_rights(()).what == "root"
    assert "without being asked" in examine_rights(("sudo", "-n")).what
    assert "unpacked for this user" in examine_rights(None).follows


def test_a_base_checkpoint_that_is_there_is_well() -> None:
    assert examine_base(present=True).status is Status.OK
    assert examine_cores(2).what == "2"

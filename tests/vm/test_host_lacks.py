"""A host that lacks something: one message that names it and says what to do, and no traceback."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import StartKernel
from tests.support.homes import lend_images, lend_tools
from tests.support.live_kernel import LiveKernel, live_kernel

from branchpoint_vmruntime.home import Home

pytestmark = pytest.mark.vm

LACKS = "lacks"


def first_error(kernel: LiveKernel) -> list[str]:
    """The lines of what a kernel's very first cell fails with."""
    cell = kernel.run("1 + 1", expect="error")
    assert "Traceback" not in cell.text
    assert 'File "' not in cell.text
    return cell.lines


def program(folder: Path, said: str) -> str:
    """A program that says this and ends."""
    made = folder / "qemu-system-x86_64"
    made.write_text(f"#!/bin/sh\necho '{said}'\n")
    made.chmod(0o755)
    return str(made)


def doctor(**environment: str) -> dict[str, dict[str, str]]:
    """What `branchpoint doctor --json` finds, by name."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "branchpoint_cli", "doctor", "--json"],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )
    assert done.stderr == ""
    return {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}


def banner(kernel: LiveKernel) -> str:
    kernel.client.kernel_info()
    return str(kernel.client.get_shell_msg(timeout=60)["content"]["banner"])


@pytest.fixture(scope="module")
def found(home: Home) -> str:
    """What the doctor says of this host's accelerator."""
    assert home.database.exists()
    return doctor()["accelerator"]["what"]


@pytest.fixture
def accelerator(found: str) -> str:
    """What this host's machines run under."""
    return found.partition(":")[0]


def test_kvm_that_is_asked_for_and_does_not_work_is_told(
    start_kernel: StartKernel, home: Home
) -> None:
    # Whichever the tests are run under.
    if doctor(BRANCHPOINT_ACCEL="auto")["accelerator"]["what"].startswith("kvm"):
        pytest.skip("this host has a KVM that works")
    with start_kernel(LACKS, BRANCHPOINT_ACCEL="kvm") as kernel:
        what, hint = first_error(kernel)
    assert "BRANCHPOINT_ACCEL=kvm" in what
    assert "/dev/kvm" in what
    assert "unset BRANCHPOINT_ACCEL" in hint


def test_no_qemu_is_told(start_kernel: StartKernel) -> None:
    with start_kernel(LACKS, BRANCHPOINT_QEMU="/nonexistent/qemu") as kernel:
        what, hint = first_error(kernel)
    assert "/nonexistent/qemu" in what
    assert "apt-get install" in hint


def test_a_qemu_too_old_is_told(start_kernel: StartKernel, tmp_path: Path) -> None:
    old = program(tmp_path, "QEMU emulator version 5.2.0 (Debian 1:5.2+dfsg-11)")
    with start_kernel(LACKS, BRANCHPOINT_QEMU=old) as kernel:
        what, hint = first_error(kernel)
    assert "5.2.0" in what
    assert "7.2" in what
    assert "apt-get install" in hint


def test_a_program_that_is_no_qemu_is_told(start_kernel: StartKernel, tmp_path: Path) -> None:
    with start_kernel(LACKS, BRANCHPOINT_QEMU=program(tmp_path, "hello")) as kernel:
        (what, *_) = first_error(kernel)
    assert "qemu-system-x86_64" in what


def test_an_accelerator_nobody_knows_is_told(start_kernel: StartKernel) -> None:
    with start_kernel(LACKS, BRANCHPOINT_ACCEL="hax") as kernel:
        what, hint = first_error(kernel)
    assert "'hax'" in what
    assert "auto, kvm or tcg" in hint


def test_a_host_without_an_image_is_told(home: Home, tmp_path: Path) -> None:
    own = Home(tmp_path / "empty", tmp_path / "run")
    lend_tools(home, own)
    with live_kernel(LACKS, cwd=tmp_path, BRANCHPOINT_HOME=str(own.root)) as kernel:
        what, hint = first_error(kernel)
    assert "image" in what
    assert "branchpoint setup" in hint


def test_a_home_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with live_kernel(LACKS, cwd=tmp_path, BRANCHPOINT_HOME=str(tmp_path / "file")) as kernel:
        what, hint = first_error(kernel)
    assert str(tmp_path / "file") in what
    assert "BRANCHPOINT_HOME" in hint


def test_every_cell_hears_of_it_and_run_all_stops_at_the_first(start_kernel: StartKernel) -> None:
    with start_kernel(LACKS, BRANCHPOINT_QEMU="/nonexistent/qemu") as kernel:
        first_error(kernel)
        first_error(kernel)
        magic = kernel.run("%checkpoint", expect="error")
    assert "/nonexistent/qemu" in magic.text


def test_the_banner_names_the_accelerator(home: Home, kernel: LiveKernel, accelerator: str) -> None:
    kernel.run("pass")
    assert f"in a microVM under {accelerator}" in banner(kernel)


def test_the_banner_says_why_there_is_no_machine(start_kernel: StartKernel) -> None:
    with start_kernel(LACKS, BRANCHPOINT_QEMU="/nonexistent/qemu") as kernel:
        first_error(kernel)
        assert "without a machine" in banner(kernel)
        assert "/nonexistent/qemu" in banner(kernel)


def test_the_doctor_says_what_machines_run_under_and_why(found: str) -> None:
    name, _, reason = found.partition(": ")
    assert name in ("kvm", "tcg")
    assert reason


def test_the_doctor_tells_of_an_accelerator_asked_for(home: Home) -> None:
    assert doctor(BRANCHPOINT_ACCEL="tcg")["accelerator"]["what"].startswith("tcg")


def test_the_doctor_tells_of_a_qemu_that_is_missing(home: Home) -> None:
    found = doctor(BRANCHPOINT_QEMU="/nonexistent/qemu")["qemu"]
    assert found["status"] == "bad"
    assert "/nonexistent/qemu" in found["what"]
    assert "apt-get install" in found["action"]


def test_a_kvm_that_hangs_is_given_up_and_machines_are_emulated(home: Home, tmp_path: Path) -> None:
    """A QEMU that does nothing under KVM stands for a nested host whose /dev/kvm only opens."""
    real = shutil.which("qemu-system-x86_64")
    if real is None or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        pytest.skip("this host has no QEMU installed, or no /dev/kvm to open")
    hanging = tmp_path / "qemu-system-x86_64"
    hanging.write_text(
        f'#!/bin/sh\ncase "$*" in *"-accel kvm"*) exec sleep 1000;; esac\nexec {real} "$@"\n'
    )
    hanging.chmod(0o755)
    own = Home(tmp_path / "home", tmp_path / "home" / "run")
    lend_images(home, own)
    (own.cache / "accelerator.json").unlink(missing_ok=True)
    found = doctor(BRANCHPOINT_HOME=str(own.root), BRANCHPOINT_QEMU=str(hanging))["accelerator"]
    assert found["what"].startswith("tcg: /dev/kvm opens, but a guest under it does nothing")

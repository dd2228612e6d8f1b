"""The accelerator is the one under which a guest was seen to run."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.host.conftest import MakeProgram

from branchpoint_vmruntime import accelerator
from branchpoint_vmruntime.accelerator import SIGN_OF_LIFE, choose_accelerator
from branchpoint_vmruntime.errors import HostError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.guest_image import FILES, GuestImage, open_image, write_manifest
from branchpoint_vmruntime.image.recipe import Recipe
from branchpoint_vmruntime.tools import QemuProgram, Tools


@pytest.fixture
def image(tmp_path: Path) -> GuestImage:
    folder = tmp_path / "image"
    folder.mkdir()
    for name in FILES:
        (folder / name).write_bytes(b"")
    write_manifest(folder, Recipe(wheels=()), {})
    return open_image(folder)


@pytest.fixture(autouse=True)
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that opens, in the place of KVM's device."""
    path = tmp_path / "kvm"
    path.write_bytes(b"")
    monkeypatch.setattr(accelerator, "DEVICE", path)
    monkeypatch.delenv(accelerator.FORCED, raising=False)
    return path


@pytest.fixture
def working(make_program: MakeProgram, tmp_path: Path) -> Tools:
    """A QEMU under which every guest runs; it leaves a mark each time it is started."""
    script = f"echo started >>{tmp_path}/starts; echo '{SIGN_OF_LIFE.decode()}'"
    return with_qemu(make_program("qemu", script))


def with_qemu(path: Path) -> Tools:
    qemu = QemuProgram(argv_prefix=(str(path),), version=(7, 2, 0), build="7.2.0", firmware_args=())
    return Tools(qemu=qemu, qemu_img=("qemu-img",), mke2fs=("mke2fs",))


def starts(tmp_path: Path) -> int:
    marks = tmp_path / "starts"
    return len(marks.read_text().splitlines()) if marks.exists() else 0


def test_kvm_is_chosen_when_a_guest_ran_under_it(
    home: Home, working: Tools, image: GuestImage
) -> None:
    assert choose_accelerator(home, working, image).name == "kvm"


def test_an_answer_that_cannot_be_kept_is_an_answer_all_the_same(
    home: Home, working: Tools, image: GuestImage
) -> None:
    shutil.rmtree(home.cache, ignore_errors=True)
    home.cache.write_text("a file, where a folder should be")
    assert choose_accelerator(home, working, image).name == "kvm"


def test_a_kvm_that_opens_but_hangs_is_not_chosen(
    home: Home, image: GuestImage, make_program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accelerator, "DEADLINE_S", 1)
    tools = with_qemu(make_program("qemu", "exec sleep 600"))
    chosen = choose_accelerator(home, tools, image)
    assert chosen.name == "tcg"
    assert "does nothing for 1 s" in chosen.reason


def test_a_kvm_that_qemu_refuses_is_not_chosen_and_qemus_reason_is_told(
    home: Home, image: GuestImage, make_program: MakeProgram, device: Path
) -> None:
    tools = with_qemu(make_program("qemu", "echo failed to initialize kvm >&2; exit 1"))
    chosen = choose_accelerator(home, tools, image)
    assert chosen.name == "tcg"
    assert f"{device} opens, but" in chosen.reason
    assert "failed to initialize kvm" in chosen.reason


def test_a_host_without_kvm_starts_nothing(
    home: Home, working: Tools, image: GuestImage, device: Path, tmp_path: Path
) -> None:
    device.unlink()
    chosen = choose_accelerator(home, working, image)
    assert (chosen.name, starts(tmp_path)) == ("tcg", 0)
    assert "this host has no" in chosen.reason


def test_the_answer_is_remembered(
    home: Home, working: Tools, image: GuestImage, tmp_path: Path
) -> None:
    first = choose_accelerator(home, working, image)
    assert choose_accelerator(home, working, image) == first
    assert starts(tmp_path) == 1


def test_another_build_of_qemu_is_asked_anew(
    home: Home, working: Tools, image: GuestImage, tmp_path: Path
) -> None:
    choose_accelerator(home, working, image)
    newer = replace(working, qemu=replace(working.qemu, build="7.2.1"))
    choose_accelerator(home, newer, image)
    assert starts(tmp_path) == 2


def test_another_boot_of_the_host_is_asked_anew(
    home: Home,
    working: Tools,
    image: GuestImage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choose_accelerator(home, working, image)
    monkeypatch.setattr(accelerator, "boot_id", lambda: "another boot")
    choose_accelerator(home, working, image)
    assert starts(tmp_path) == 2


def test_a_damaged_memory_is_forgotten(
    home: Home, working: Tools, image: GuestImage, tmp_path: Path
) -> None:
    choose_accelerator(home, working, image)
    (home.cache / "accelerator.json").write_text("[]")
    assert choose_accelerator(home, working, image).name == "kvm"
    assert starts(tmp_path) == 2


def test_what_is_remembered_is_told_as_what_was_seen(
    home: Home, image: GuestImage, make_program: MakeProgram
) -> None:
    tools = with_qemu(make_program("qemu", "echo no such register >&2; exit 1"))
    first = choose_accelerator(home, tools, image)
    assert "no such register" in first.reason
    assert choose_accelerator(home, tools, image) == first


def test_a_memory_of_another_version_is_no_answer(
    home: Home, working: Tools, image: GuestImage, tmp_path: Path
) -> None:
    choose_accelerator(home, working, image)
    memory = home.cache / "accelerator.json"
    key = json.loads(memory.read_text())["key"]
    older = {"name": "tcg", "reason": "words of then", "tried_at": "2026-11-30T18:31:23+00:00"}
    memory.write_text(json.dumps({**older, "key": key}))
    assert choose_accelerator(home, working, image).name == "kvm"
    assert starts(tmp_path) == 2


def test_emulation_can_be_asked_for(
    home: Home,
    working: Tools,
    image: GuestImage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(accelerator.FORCED, "tcg")
    assert choose_accelerator(home, working, image).name == "tcg"
    assert starts(tmp_path) == 0


def test_kvm_that_is_asked_for_and_does_not_work_is_an_error(
    home: Home,
    working: Tools,
    image: GuestImage,
    device: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device.unlink()
    monkeypatch.setenv(accelerator.FORCED, "kvm")
    with pytest.raises(HostError, match="asks for KVM, but this host has no"):
        choose_accelerator(home, working, image)


def test_a_word_that_is_no_accelerator_is_an_error(
    home: Home, working: Tools, image: GuestImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(accelerator.FORCED, "fast")
    with pytest.raises(HostError, match="'fast'") as caught:
        choose_accelerator(home, working, image)
    assert "auto, kvm or tcg" in caught.value.hint

"""A tool that is missing or too old is one message that says which and what to do."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.host.conftest import MakeProgram

from branchpoint_vmruntime import tools
from branchpoint_vmruntime.errors import MissingToolError
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.image.progress import SilentProgress
from branchpoint_vmruntime.unpacked import LIBRARIES, LOADER, UnpackedTools


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BRANCHPOINT_QEMU", raising=False)


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(tools, "SEARCH_PATH", ())


def use_qemu(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setenv("BRANCHPOINT_QEMU", str(path))


@given(st.tuples(*[st.integers(0, 99)] * 3), st.sampled_from(["", " (Debian 1:9.9+dfsg-1)"]))
def test_the_version_is_read_whatever_the_distribution_adds(
    version: tuple[int, int, int], extra: str
) -> None:
    text = ".".join(map(str, version))
    said = f"QEMU emulator version {text}{extra}\nCopyright (c) somebody\n"
    assert tools.parse_version(said) == (version, f"{text}{extra}")


def test_a_program_that_is_no_qemu_has_no_version() -> None:
    assert tools.parse_version("hello") is None


def test_a_qemu_that_is_too_old_is_named_with_what_is_needed(
    home: Home, make_program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_qemu(monkeypatch, make_program("qemu", "echo QEMU emulator version 6.2.0"))
    with pytest.raises(MissingToolError, match=r"6\.2\.0 .* too old: 7\.2") as caught:
        tools.ensure_tools(home, SilentProgress())
    assert "apt-get install" in caught.value.hint


def test_a_qemu_that_is_not_where_it_should_be_is_told_of(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_qemu(monkeypatch, Path("/nowhere/qemu"))
    with pytest.raises(MissingToolError, match="/nowhere/qemu"):
        tools.ensure_tools(home, SilentProgress())


def test_a_qemu_that_does_not_run_is_told_of_with_what_it_said(
    home: Home, make_program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_qemu(monkeypatch, make_program("qemu", "echo libpixman is missing >&2; exit 127"))
    with pytest.raises(MissingToolError, match="libpixman is missing"):
        tools.find_tools(home)


@pytest.mark.usefixtures("nothing_installed")
def test_a_host_without_qemu_is_told_the_exact_command(home: Home) -> None:
    with pytest.raises(MissingToolError, match="qemu-system-x86_64 is not on this host") as caught:
        tools.find_tools(home)
    assert "apt-get install --no-install-recommends qemu-system-x86" in caught.value.hint


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize("missing", ["qemu-img", "mke2fs"])
def test_every_tool_is_looked_for(missing: str, home: Home, make_program: MakeProgram) -> None:
    make_program("qemu-system-x86_64", "echo QEMU emulator version 8.0.0")
    for name in {"qemu-img", "mke2fs"} - {missing}:
        make_program(name, "true")
    with pytest.raises(MissingToolError, match=missing):
        tools.find_tools(home)


@pytest.mark.usefixtures("nothing_installed")
def test_all_tools_together_are_found(home: Home, make_program: MakeProgram) -> None:
    made = {
        name: make_program(name, "echo QEMU emulator version 8.0.0")
        for name in ("qemu-system-x86_64", "qemu-img", "mke2fs")
    }
    found = tools.find_tools(home)
    assert found.qemu.argv_prefix == (str(made["qemu-system-x86_64"]),)
    assert found.qemu.version == (8, 0, 0)
    assert found.qemu_img == (str(made["qemu-img"]),)
    assert found.mke2fs == (str(made["mke2fs"]),)


@pytest.mark.usefixtures("nothing_installed")
def test_an_ordinary_user_whose_tools_cannot_be_unpacked_is_told_the_exact_command(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "root_prefix", lambda: None)
    with pytest.raises(MissingToolError, match="could not be unpacked") as caught:
        tools.ensure_tools(home, SilentProgress())
    assert caught.value.hint == f"have this run as root: {tools.INSTALL_COMMAND}"


def unpack(home: Home, *names: str) -> UnpackedTools:
    unpacked = UnpackedTools(home.tools)
    for name in names:
        place = unpacked.root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(Path(sys.executable).read_bytes()[:4])
    return unpacked


def test_an_unpacked_program_runs_with_the_libraries_beside_it(home: Home) -> None:
    unpacked = unpack(home, "usr/bin/qemu-img")
    command = unpacked.command("qemu-img")
    assert command is not None
    *_, loader, option, libraries, program = command
    assert loader == f"/lib64/{LOADER}"
    assert option == "--library-path"
    assert libraries.split(":")[0] == str(unpacked.root / LIBRARIES)
    assert program == str(unpacked.root / "usr/bin/qemu-img")


def test_an_unpacked_c_library_is_started_by_its_own_loader(home: Home) -> None:
    unpacked = unpack(home, "usr/bin/qemu-img", f"{LIBRARIES}/{LOADER}")
    command = unpacked.command("qemu-img")
    assert command is not None
    assert command[-4] == str(unpacked.root / LIBRARIES / LOADER)


def test_an_unpacked_qemu_finds_its_modules(home: Home) -> None:
    unpacked = unpack(home, "usr/bin/qemu-system-x86_64")
    command = unpacked.command("qemu-system-x86_64")
    assert command is not None
    assert command[:2] == ("/usr/bin/env", f"QEMU_MODULE_DIR={unpacked.root / LIBRARIES / 'qemu'}")


def test_what_was_not_unpacked_has_no_command(home: Home) -> None:
    assert UnpackedTools(home.tools).command("qemu-img") is None

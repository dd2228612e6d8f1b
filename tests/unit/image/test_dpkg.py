"""The database we write is one that the real dpkg reads."""

import subprocess
from pathlib import Path

import pytest
from tests.unit.image.conftest import MakeDeb

from branchpoint_vmruntime.image.dpkg import UnpackedPackage, interests, write_database
from branchpoint_vmruntime.image.tree import Tree, control_files


def query(root: Path, *words: str) -> str:
    argv = ["dpkg-query", f"--admindir={root}/var/lib/dpkg", *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def root(tmp_path: Path, make_deb: MakeDeb) -> Path:
    control = {
        "conffiles": "/etc/hello.conf\n",
        "postinst": "#!/bin/sh\n",
        "triggers": "interest-noawait /usr/share/hello\ninterest hello-now\nactivate other\n",
    }
    files = {"etc/hello.conf": "a = 1\n", "usr/bin/hello": "hi"}
    deb = make_deb("hello", files=files, control=control)
    tree = Tree.create(tmp_path / "tree")
    package = UnpackedPackage(control_files(deb), tree.unpack(deb))
    write_database(tree.root, [package])
    return tree.root


def test_dpkg_takes_the_packages_for_installed(root: Path) -> None:
    shown = query(root, "-W", "-f", "${Package} ${Version} ${Status}")
    assert shown == "hello 1.0 install ok installed"


def test_a_package_whose_scripts_are_still_to_run_is_unpacked_and_no_more(
    tmp_path: Path, make_deb: MakeDeb
) -> None:
    deb = make_deb("hello", files={"usr/bin/hello": "hi"})
    tree = Tree.create(tmp_path / "tree")
    package = UnpackedPackage(control_files(deb), tree.unpack(deb))
    write_database(tree.root, [package], unconfigured={"hello"})
    assert query(tree.root, "-W", "-f", "${Status}") == "install ok unpacked"


def test_dpkg_finds_the_package_a_file_belongs_to(root: Path) -> None:
    assert query(root, "-S", "/usr/bin/hello") == "hello: /usr/bin/hello\n"


def test_dpkg_knows_the_configuration_files_by_their_sums(root: Path) -> None:
    shown = query(root, "-W", "-f", "${Conffiles}", "hello").split()
    assert shown == ["/etc/hello.conf", "9358f2568f3316fe7e78a4fa7707c414"]


def test_scripts_are_kept_and_can_be_run(root: Path) -> None:
    script = root / "var/lib/dpkg/info/hello.postinst"
    assert script.stat().st_mode & 0o777 == 0o755


def test_triggers_reach_the_package_that_is_interested(root: Path) -> None:
    folder = root / "var/lib/dpkg/triggers"
    assert (folder / "File").read_text() == "/usr/share/hello hello/noawait\n"
    assert (folder / "hello-now").read_text() == "hello\n"
    assert not (folder / "other").exists()


def test_a_package_of_several_architectures_bears_its_own() -> None:
    control = b"Package: libx\nVersion: 1\nArchitecture: amd64\nMulti-Arch: same\n"
    assert UnpackedPackage({"control": control}, ()).info_name == "libx:amd64"


def test_a_comment_is_no_interest() -> None:
    assert interests("# interest x\n\ninterest-await y # why\n") == [("y", True)]

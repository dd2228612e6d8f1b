"""Packages are unpacked into a tree, and never beside it."""

from pathlib import Path

import pytest
from tests.unit.image.conftest import MakeDeb

from branchpoint_vmruntime.errors import ImageBuildError
from branchpoint_vmruntime.image.tree import Tree, control_files


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree.create(tmp_path / "tree")


def test_what_a_package_puts_in_bin_lands_in_usr(tree: Tree, make_deb: MakeDeb) -> None:
    tree.unpack(make_deb("hello", files={"bin/hello": "hi", "lib/libhello": "x"}))
    assert (tree.root / "usr/bin/hello").read_text() == "hi"
    assert (tree.root / "bin").readlink() == Path("usr/bin")
    assert (tree.root / "lib/libhello").read_text() == "x"


def test_every_path_of_the_package_is_listed_unpacked_or_not(tree: Tree, make_deb: MakeDeb) -> None:
    listed = tree.unpack(make_deb("hello", files={"usr/share/man/man1/hello.1": "text"}))
    assert listed[0] == "/."
    assert "/usr/share/man/man1/hello.1" in listed
    assert not (tree.root / "usr/share/man/man1/hello.1").exists()


def test_licences_stay_where_other_documents_go(tree: Tree, make_deb: MakeDeb) -> None:
    folder = "usr/share/doc/hello"
    tree.unpack(make_deb("hello", files={f"{folder}/copyright": "mine", f"{folder}/NEWS": "old"}))
    assert [path.name for path in (tree.root / folder).iterdir()] == ["copyright"]


def test_an_absolute_link_is_followed_inside_the_tree(
    tree: Tree, make_deb: MakeDeb, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    tree.unpack(make_deb("one", files={}, links={"var/run": str(outside)}))
    tree.unpack(make_deb("two", files={"var/run/mark": "x"}))
    assert list(outside.iterdir()) == []
    assert (tree.root / str(outside).lstrip("/") / "mark").read_text() == "x"


def test_a_link_that_leads_out_of_the_tree_is_refused(tree: Tree, make_deb: MakeDeb) -> None:
    tree.unpack(make_deb("one", files={}, links={"var/up": "../../.."}))
    with pytest.raises(ImageBuildError, match="leads out of the tree"):
        tree.unpack(make_deb("two", files={"var/up/mark": "x"}))


def test_modes_are_kept_set_user_id_too(tree: Tree, make_deb: MakeDeb) -> None:
    tree.unpack(make_deb("hello", files={"usr/bin/su": "x"}, modes={"usr/bin/su": 0o4755}))
    assert (tree.root / "usr/bin/su").stat().st_mode & 0o7777 == 0o4755


def test_a_later_package_replaces_a_file_instead_of_writing_through_a_link(
    tree: Tree, make_deb: MakeDeb
) -> None:
    tree.unpack(make_deb("one", files={"etc/real": "real"}, links={"etc/name": "real"}))
    tree.unpack(make_deb("two", files={"etc/name": "other"}))
    assert (tree.root / "etc/real").read_text() == "real"
    assert (tree.root / "etc/name").read_text() == "other"


def test_control_files_come_by_name(make_deb: MakeDeb) -> None:
    deb = make_deb("hello", files={"etc/h": "1"}, control={"conffiles": "/etc/h\n"})
    files = control_files(deb)
    assert files["conffiles"] == b"/etc/h\n"
    assert b"Package: hello" in files["control"]

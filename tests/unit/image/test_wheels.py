"""Python packages look as if the guest's own pip had installed them."""

import sys
from pathlib import Path

import pytest

from branchpoint_vmruntime.errors import ImageBuildError
from branchpoint_vmruntime.image import wheels


def test_a_script_runs_under_the_guests_python() -> None:
    script = b"#!/home/me/project/.venv/bin/python3.13\nimport x\n"
    assert wheels.with_guest_python(script) == b"#!/usr/bin/python3\nimport x\n"


def test_a_script_for_a_long_interpreter_path_runs_under_the_guests_python() -> None:
    script = b"#!/bin/sh\n'''exec' \"/a b/bin/python\" \"$0\" \"$@\"\n' '''\nimport x\n"
    assert wheels.with_guest_python(script) == b"#!/usr/bin/python3\nimport x\n"


def test_a_shell_script_stays_as_it_is() -> None:
    assert wheels.with_guest_python(b"#!/bin/sh\necho\n") == b"#!/bin/sh\necho\n"


def test_the_record_names_pips_script_after_the_guests_python() -> None:
    host = f"../../bin/pip3.{sys.version_info.minor},sha256=abc,219\n"
    assert wheels.relocate_record(host) == "../../../bin/pip3.11,,\n"


def test_two_packages_may_share_a_folder_but_not_a_file(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "share").mkdir(parents=True)
    (tmp_path / "one/share/a").write_text("1")
    (tmp_path / "two/share/b").write_text("2")
    wheels.move_children(tmp_path / "one", tmp_path / "place")
    wheels.move_children(tmp_path / "two", tmp_path / "place")
    assert sorted(path.name for path in (tmp_path / "place/share").iterdir()) == ["a", "b"]

    (tmp_path / "three/share").mkdir(parents=True)
    (tmp_path / "three/share/a").write_text("3")
    with pytest.raises(ImageBuildError, match="two packages"):
        wheels.move_children(tmp_path / "three", tmp_path / "place")


def test_pip_is_asked_for_the_guests_python_and_for_wheels_alone() -> None:
    options = wheels.target_options()
    assert options[options.index("--python-version") + 1] == "3.11"
    assert "--only-binary=:all:" in options

"""The rules of the house are held to the project's own files, also where git does not list them."""

import subprocess
from pathlib import Path

import pytest
from tests.architecture.house import ROOT, environment_for_git, tracked_files

WRITTEN = ["kernel/a/b.py", "pyproject.toml"]
MADE = [
    ".venv/lib/x.py",
    "kernel/a/__pycache__/b.pyc",
    "nbext/labextension/static/x.js",
    "nbext/node_modules/x/build/x.ts",
    "notebooks/summary.csv",
    "p.egg-info/SOURCES.txt",
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Of files that were written, and of what was made of them."""
    for name in (*WRITTEN, *MADE):
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "tree" / ".gitignore").write_text((ROOT / ".gitignore").read_text())
    return tmp_path / "tree"


def git(folder: Path, *arguments: str) -> None:
    command = ["git", "-C", folder, *arguments]
    subprocess.run(command, check=True, capture_output=True, env=environment_for_git())


def names(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in tracked_files(root))


def test_without_git_what_was_made_is_left_out(tree: Path) -> None:
    assert names(tree) == WRITTEN


def test_so_it_is_in_a_repository_that_does_not_track_it(tree: Path) -> None:
    git(tree.parent, "init", "-q")
    assert names(tree) == WRITTEN


def test_what_git_tracks_is_listed_whatever_a_hook_has_set(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tree, "init", "-q")
    git(tree, "add", "--force", "pyproject.toml", "notebooks/summary.csv")
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    assert names(tree) == ["notebooks/summary.csv", "pyproject.toml"]


def test_without_git_there_are_the_same_files_but_for_hidden_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tracked = {path.relative_to(ROOT) for path in tracked_files()}
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {path.relative_to(ROOT) for path in tracked_files()}
    assert {path for path in tracked if not any(it.startswith(".") for it in path.parts)} <= found

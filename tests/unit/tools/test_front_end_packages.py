"""What the front end is built with is fetched whole, whatever npm is set up to leave out.

A package manager that is made up stands for npm.
"""

import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest
from tests.architecture.house import ROOT


@dataclass
class Npm:
    """It puts packages down, but for those to build with, unless it is told to."""

    folder: Path
    lost: tuple[str, ...] = ()
    complains: bool = False
    asked: list[str] = field(default_factory=list[str])

    def __call__(self, command: str, *options: str) -> None:
        """Fetch."""
        self.asked.append(command)
        if self.complains and command == "ci":
            raise front_end.FrontEndError("EUSAGE")
        wanted = json.loads((self.folder / "package.json").read_text())
        kinds = ["dependencies", *(["devDependencies"] if "--include=dev" in options else [])]
        for kind in kinds:
            for name in wanted[kind]:
                if name not in self.lost:
                    (self.folder / "node_modules" / name).mkdir(parents=True, exist_ok=True)


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("front_end", ROOT / "tools" / "front_end.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


front_end = _load()


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Npm:
    """Of a front end with two packages."""
    asked = {"dependencies": {"@a/shown": "1"}, "devDependencies": {"builder": "1"}}
    (tmp_path / "package.json").write_text(json.dumps(asked))
    (tmp_path / "package-lock.json").write_text("{}")
    (tmp_path / ".npmrc").touch()
    made = Npm(tmp_path)
    monkeypatch.setattr(front_end, "ROOT", tmp_path)
    monkeypatch.setattr(front_end, "NBEXT", tmp_path)
    monkeypatch.setattr(front_end, "INSTALLED_STAMP", tmp_path / "node_modules" / ".stamp")
    monkeypatch.setattr(front_end, "_npm", made)
    return made


@pytest.fixture
def fetch(npm: Npm) -> Callable[[], None]:
    """Have fetched what is not there."""
    return front_end._fetch_packages


def test_what_the_front_end_is_built_with_is_fetched_too(
    npm: Npm, fetch: Callable[[], None]
) -> None:
    fetch()
    assert (npm.folder / "node_modules" / "builder").is_dir()


def test_so_it_is_where_not_every_package_is_to_be_had(npm: Npm, fetch: Callable[[], None]) -> None:
    npm.complains = True
    fetch()
    assert npm.asked == ["ci", "install"]
    assert (npm.folder / "node_modules" / "builder").is_dir()


def test_what_is_there_is_not_fetched_again(npm: Npm, fetch: Callable[[], None]) -> None:
    fetch()
    fetch()
    assert npm.asked == ["ci"]


def test_what_an_earlier_run_left_out_is_fetched(npm: Npm, fetch: Callable[[], None]) -> None:
    fetch()
    (npm.folder / "node_modules" / "builder").rmdir()
    fetch()
    assert npm.asked == ["ci", "ci"]


def test_packages_that_were_left_out_all_the_same_are_named(
    npm: Npm, fetch: Callable[[], None]
) -> None:
    npm.lost = ("builder",)
    for _ in range(2):
        with pytest.raises(front_end.FrontEndError, match=r"builder"):
            fetch()


def test_what_was_built_elsewhere_is_not_enough_for_a_checkout(
    npm: Npm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front_end, "is_built", lambda: True)
    front_end.build()
    assert npm.asked == []
    for _ in range(2):
        front_end.prepare()
    assert npm.asked == ["ci"]

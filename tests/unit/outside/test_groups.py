"""What the host's own configuration of pip and apt comes to."""

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.image.sources import Archive
from branchpoint_vmruntime.outside import groups as module
from branchpoint_vmruntime.outside import pip_configuration
from branchpoint_vmruntime.outside.facts import Rule
from branchpoint_vmruntime.outside.groups import expand, named_places
from branchpoint_vmruntime.outside.pip_group import default_index, pip_group
from branchpoint_vmruntime.outside.registries import Place

JSON = "application/vnd.pypi.simple.v1+json"
PAGE = '<a href="https://files.example.org/w-1.whl#sha256=0">w</a> <a HREF="../w-2.whl">w</a>'


@contextmanager
def index(page: str, kind: str) -> Generator[tuple[str, list[str | None]]]:
    """A package index on loopback: its host and port, and how it was authorised."""
    seen: list[str | None] = []

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"])
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()


def told(**options: str) -> dict[str, str]:
    """An environment in which pip is told no more than that."""
    names = {f"PIP_{name.upper()}": value for name, value in options.items()}
    return {"PIP_CONFIG_FILE": os.devnull, **names}


@pytest.mark.parametrize(
    ("page", "kind"),
    [(PAGE, "text/html"), ('{"files": [{"url": "https://files.example.org/w-1.whl"}]}', JSON)],
)
def test_pip_is_its_index_and_where_that_has_its_files(page: str, kind: str) -> None:
    with index(page, kind) as (place, _):
        group = pip_group(told(index_url=f"http://{place}/simple"))
    assert {rule.host for rule in group.rules} == {"127.0.0.1", "files.example.org"}
    assert all(rule.private and rule.group == "pip" for rule in group.rules)
    assert group.environment["PIP_INDEX_URL"] == f"http://{place}/simple"
    assert group.environment["PIP_TRUSTED_HOST"] == "127.0.0.1"
    assert group.notes == ()


def test_credentials_of_an_index_stay_on_the_host() -> None:
    with index(PAGE, "text/html") as (place, seen):
        group = pip_group(told(index_url=f"http://me:w%40rd@{place}/simple"))
    (credential,) = group.credentials
    assert (credential.host, credential.user, credential.password) == ("127.0.0.1", "me", "w@rd")
    assert seen == ["Basic bWU6d0ByZA=="]
    assert group.environment["PIP_INDEX_URL"] == f"http://{place}/simple"
    assert "w@rd" not in repr(group)
    assert next(rule for rule in group.rules if rule.host == "127.0.0.1").inspect


def test_an_index_that_does_not_answer_is_told_of() -> None:
    with index(PAGE, "text/html") as (place, _):
        pass
    group = pip_group(told(index_url=f"http://{place}/simple"))
    assert [rule.host for rule in group.rules] == ["127.0.0.1"]
    assert "did not tell where its files are" in group.notes[0]


def test_further_places_are_let_out_but_for_those_of_the_host_itself() -> None:
    with index("", "text/html") as (place, _):
        more = f"file:///opt/simple http://{place}/more"
        links = "/opt/wheels https://wheels.example.org/list"
        group = pip_group(
            told(index_url=f"http://{place}/a", extra_index_url=more, find_links=links)
        )
    assert {rule.host for rule in group.rules} == {"127.0.0.1", "wheels.example.org"}
    assert group.environment["PIP_EXTRA_INDEX_URL"] == f"http://{place}/more"
    assert group.environment["PIP_FIND_LINKS"] == "https://wheels.example.org/list"


def test_a_pip_with_no_index_to_reach_is_told_as_such() -> None:
    with pytest.raises(UsageError, match="no index that is reached by HTTP"):
        pip_group(told(index_url="file:///opt/simple"))


def test_pip_itself_knows_its_default_index() -> None:
    assert Place.of(default_index(), "pip") is not None


def test_what_is_closer_to_the_user_counts_more(tmp_path: Path) -> None:
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "pip.conf").write_text(
        "[global]\nindex_url = https://a.example.org\ncert = /a\n[install]\ncert = /b\n"
    )
    (tmp_path / "own.conf").write_text("[global]\nindex-url = https://b.example.org\n")
    environment = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "PIP_CONFIG_FILE": str(tmp_path / "own.conf"),
        "PIP_TIMEOUT": "7",
    }
    found = pip_configuration.read(environment)
    assert (found["index-url"], found["cert"], found["timeout"]) == (
        "https://b.example.org", "/b", "7",
    )  # fmt: skip


def test_a_broken_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "own.conf").write_text("no section\n")
    environment = {"HOME": str(tmp_path)}
    told_of_it = environment | {"PIP_CONFIG_FILE": str(tmp_path / "own.conf")}
    found = pip_configuration.read(told_of_it)
    assert found.pop("config-file") == str(tmp_path / "own.conf")
    assert found == pip_configuration.read(environment)


def test_apt_is_the_hosts_mirrors_of_debian(monkeypatch: pytest.MonkeyPatch) -> None:
    archives = [
        Archive("http://me:word@mirror.example.org/debian", ("bookworm",), ("main",)),
        Archive("https://s.example.org/debian-security", ("bookworm-security",), ("main",)),
        Archive("https://other.example.org/apt", ("cloud",), ("main",)),
        Archive("file:///media/debian", ("bookworm",), ("main",)),
    ]
    monkeypatch.setattr(module, "host_archives", lambda: archives)
    (group,) = expand(["apt"]).groups
    assert [(rule.host, rule.ports, rule.methods) for rule in group.rules] == [
        ("mirror.example.org", (80,), ("GET", "HEAD")),
        ("s.example.org", (443,), ()),
    ]
    assert group.credentials[0].password == "word"


def test_a_host_that_the_configuration_names_is_known_by_its_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    archive = Archive("http://mirror.example.org/debian", ("bookworm",), ("main",))
    monkeypatch.setattr(module, "host_archives", lambda: [archive])
    for name, value in told(index_url="https://index.example.org/simple").items():
        monkeypatch.setenv(name, value)
    named = named_places()
    assert named["index.example.org", 443] == "pip"
    assert named["mirror.example.org", 80] == "apt"
    assert ("index.example.org", 80) not in named


def test_an_apt_without_mirrors_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "host_archives", list[Archive])
    with pytest.raises(UsageError, match="no Debian archive"):
        expand(["apt"])


def test_hosts_and_rules_are_taken_as_they_are() -> None:
    rule = Rule(host="a.example.org", methods=("GET",))
    assert expand([rule, "b.example.org:8443"]).rules == (
        rule,
        Rule(host="b.example.org", ports=(8443,)),
    )


def test_a_group_that_is_none_is_told_with_a_near_miss() -> None:
    with pytest.raises(UsageError) as caught:
        expand(["pipp"])
    assert "pip" in caught.value.hint

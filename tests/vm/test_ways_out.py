"""Every way out of a machine in which nothing is allowed: closed, and in words where it can be.

What the missing network card alone closes is in test_no_network.py.
"""

import json
import re
import select
import socket
import subprocess
from collections.abc import Generator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from tests.support.live_kernel import LiveKernel, live_kernel
from tests.support.made_up_names import names_lead

from branchpoint_vmruntime.home import Home

pytestmark = pytest.mark.vm

UNREACHABLE, UNKNOWN = {"ENETUNREACH", "EHOSTUNREACH"}, {"EAFNOSUPPORT"}
SOCKS_REFUSED = "05000502"
INWARD = "inward.example.org"
MADE_NAMES = {INWARD: "127.0.0.1", "six.example.org": "::1", "cloud.example.org": "169.254.169.254"}

# How each ends: the name of an error, or what came of it.
DIRECT = r"""
import errno, json, os, socket, subprocess
def ended(way):
    try:
        return way() or "done"
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
def send(family, kind, protocol, data, *where):
    with socket.socket(family, kind, protocol) as sender:
        sender.settimeout(20)
        sender.sendto(data, *where)
def call(family, where):
    with socket.socket(family, socket.SOCK_STREAM) as caller:
        caller.settimeout(20)
        caller.connect(where)
def bound(name):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as sender:
        sender.bind((name, 0))
def failed(*command):
    return "" if subprocess.run(command, capture_output=True).returncode == 0 else "failed"
V4, V6, RAW, UDP = socket.AF_INET, socket.AF_INET6, socket.SOCK_RAW, socket.SOCK_DGRAM
ECHO = b"\x08\0\0\0\0\0\0\0"
QUESTION = b"\0\1\1\0\0\1\0\0\0\0\0\0\7example\3org\0\0\1\0\1"
def tried():
    return {
        "a datagram by IPv6": ended(lambda: send(V6, UDP, 0, b"x", ("2001:4860:4860::8888", 53))),
        "a question to a resolver": ended(lambda: send(V4, UDP, 0, QUESTION, ("1.1.1.1", 53))),
        "an echo by IPv4": ended(lambda: send(V4, RAW, 1, ECHO, ("8.8.8.8", 0))),
        "an echo by IPv6": ended(lambda: send(V6, RAW, 58, ECHO, ("2001:4860:4860::8888", 0))),
        "a raw packet": ended(lambda: send(V4, RAW, 255, bytes(20), ("8.8.8.8", 0))),
        "a frame of a card": ended(lambda: bound("eth0")),
        "vsock to the host": ended(lambda: call(socket.AF_VSOCK, (2, 1024))),
        "vsock to the hypervisor": ended(lambda: call(socket.AF_VSOCK, (0, 1024))),
        "a card that is made": failed("ip", "link", "add", "made", "type", "veth"),
        "a tunnel that is made": ended(lambda: os.open("/dev/net/tun", os.O_RDWR) and ""),
        "a route that is made": failed("ip", "route", "add", "default", "via", "10.0.2.2"),
        "a port of the bus": ended(lambda: os.open("/dev/port", os.O_RDWR) and ""),
        "a hypervisor within": ended(lambda: os.open("/dev/kvm", os.O_RDWR) and ""),
        "a folder by 9p": failed("mount", "-t", "9p", "-o", "trans=virtio", "host", "/mnt"),
        "a folder by virtiofs": failed("mount", "-t", "virtiofs", "host", "/mnt"),
        "a folder by NFS": failed("mount", "-t", "nfs", "10.0.2.2:/", "/mnt"),
        "a folder by FUSE": failed("mount", "-t", "fuse", "host", "/mnt"),
    }
"""
NO_SUCH = {"ENOENT", "ENODEV", "ENXIO"}
EXPECTED = {
    "a datagram by IPv6": UNREACHABLE,
    "a question to a resolver": UNREACHABLE,
    "an echo by IPv4": UNREACHABLE,
    "an echo by IPv6": UNREACHABLE,
    "a raw packet": UNREACHABLE,
    "a frame of a card": NO_SUCH,
    "vsock to the host": UNKNOWN,
    "vsock to the hypervisor": UNKNOWN,
    "a card that is made": {"failed"},
    "a tunnel that is made": NO_SUCH,
    "a route that is made": {"failed"},
    "a port of the bus": NO_SUCH,
    "a hypervisor within": NO_SUCH,
    "a folder by 9p": {"failed"},
    "a folder by virtiofs": {"failed"},
    "a folder by NFS": {"failed"},
    "a folder by FUSE": {"failed"},
}

# What the proxy says to each: by HTTP and CONNECT all of it, by SOCKS in hexadecimal digits.
PROXY = r"""
def say(data, *more):
    with socket.create_connection(("127.0.0.1", 3128), timeout=60) as caller:
        answer = b""
        for one in (data, *more):
            caller.sendall(one)
            answer += caller.recv(2) if more and one is data else b""
        while piece := caller.recv(65536):
            answer += piece
            if more:
                break
    return answer
def http(host, port):
    line = f"GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
    return say(line.encode()).decode()
def connect(host, port):
    line = f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"
    return say(line.encode()).decode()
def socks(host, port):
    if ":" in host:
        where = b"\4" + socket.inet_pton(V6, host.strip("[]"))
    elif host.replace(".", "").isdigit():
        where = b"\1" + socket.inet_pton(V4, host)
    else:
        where = b"\3" + bytes([len(host)]) + host.encode()
    return say(b"\5\1\0", b"\5\1\0" + where + port.to_bytes(2, "big")).hex()
HOW = {"http": http, "connect": connect, "socks": socks}
def asked(ways):
    return [HOW[how](host, port) for how, host, port in ways]
"""

SPELLINGS = {
    "127.0.0.1": "127.0.0.1",
    "localhost": "localhost",
    "LOCALHOST.": "localhost",
    "[::1]": "[::1]",
    "0.0.0.0": "0.0.0.0",
    "[::]": "[::]",
    "2130706433": "127.0.0.1",
    "0x7f000001": "127.0.0.1",
    "0x7f.1": "127.0.0.1",
    "017700000001": "127.0.0.1",
    "127.1": "127.0.0.1",
    "[::ffff:127.0.0.1]": "127.0.0.1",
    "127.255.255.254": "127.255.255.254",
}
NAMED = {"127.0.0.1": "127.0.0.1", "localhost": "localhost", "[::1]": "[::1]"}
ELSEWHERE = {
    "169.254.169.254": "169.254.169.254",
    "10.0.2.2": "10.0.2.2",
    "8.8.8.8": "8.8.8.8",
    "example.org": "example.org",
}


HOW = ("http", "connect", "socks")


def host_addresses() -> dict[str, str]:
    """The host's own, and its name, as they are spelt in the ledger."""
    said = subprocess.run(["hostname", "-I"], check=False, capture_output=True, text=True).stdout
    found = [ip_address(word) for word in said.split() if "%" not in word]
    spelt = [f"[{it}]" if it.version == 6 else str(it) for it in found]
    name = socket.gethostname()
    return {word: word for word in (*spelt, name.lower())}


WAYS = [
    *(("http", host, as_written) for host, as_written in {**SPELLINGS, **ELSEWHERE}.items()),
    *(("connect", host, as_written) for host, as_written in {**NAMED, **ELSEWHERE}.items()),
    *(("socks", host, as_written) for host, as_written in {**NAMED, **ELSEWHERE}.items()),
]


@pytest.fixture(scope="module")
def listening() -> Generator[socket.socket]:
    """What waits on the host, at all of its addresses, for whoever comes through."""
    with socket.create_server(("0.0.0.0", 0)) as server:
        yield server


@pytest.fixture(scope="module")
def port(listening: socket.socket) -> int:
    """Where that is."""
    return int(listening.getsockname()[1])


@pytest.fixture(scope="module")
def guest(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Generator[LiveKernel]:
    """A kernel whose host knows some names of the tests' own."""
    assert home.database.exists()
    names = names_lead(tmp_path_factory.mktemp("names"), MADE_NAMES)
    with live_kernel("ways-out", cwd=tmp_path_factory.mktemp("cwd"), **names) as kernel:
        kernel.run(DIRECT)
        kernel.run(PROXY)
        yield kernel


@pytest.fixture(scope="module")
def direct(guest: LiveKernel) -> dict[str, str]:
    """How each way ended that goes by no proxy."""
    return json.loads(guest.value("json.dumps(tried())"))


@pytest.fixture(scope="module")
def own() -> dict[str, str]:
    """The host's own addresses, asked for once: they may come and go."""
    return host_addresses()


@pytest.fixture(scope="module")
def answers(guest: LiveKernel, port: int, own: dict[str, str]) -> dict[tuple[str, str], str]:
    """What the proxy said to each."""
    ways = [(how, host, port) for how, host, _ in WAYS]
    return ask(guest, [*ways, *((how, host, port) for host in own for how in HOW)])


@pytest.fixture(scope="module")
def refusals(guest: LiveKernel, answers: dict[tuple[str, str], str]) -> set[tuple[str, str]]:
    """What the ledger has of them."""
    assert answers
    return refused(guest)


def ask(guest: LiveKernel, ways: list[tuple[str, str, int]]) -> dict[tuple[str, str], str]:
    """What the proxy says to each, by how and where."""
    said: list[str] = json.loads(guest.value(f"json.dumps(asked({ways!r}))"))
    return {(how, host): answer for (how, host, _), answer in zip(ways, said, strict=True)}


def refused(guest: LiveKernel) -> set[tuple[str, str]]:
    """Method and URL of what the ledger says was refused."""
    entries: list[dict[str, Any]] = guest.run("%ledger --all").record["entries"]
    found = [each for each in entries if each["decision"] == "refused"]
    return {(each["method"], each["url"]) for each in found}


def line(how: str, host: str, port: int) -> tuple[str, str]:
    """Method and URL of the ledger's line."""
    methods = {"http": "GET", "connect": "CONNECT", "socks": "SOCKS"}
    place = f"{host}:{port}"
    return methods[how], f"http://{place}/" if how == "http" else place


def is_refused(how: str, answer: str, words: str) -> bool:
    """Whether that is what a refusal looks like; SOCKS has no words."""
    if how == "socks":
        return answer.startswith(SOCKS_REFUSED)
    return answer.startswith("HTTP/1.1 403 ") and words in answer and "%egress allow" in answer


@pytest.mark.parametrize("way", EXPECTED)
def test_no_way_leads_past_the_proxy(direct: dict[str, str], way: str) -> None:
    assert direct[way] in EXPECTED[way]


@pytest.mark.parametrize(("how", "host", "as_written"), WAYS)
def test_the_proxy_refuses_it_in_words_and_writes_it_down(
    answers: dict[tuple[str, str], str],
    refusals: set[tuple[str, str]],
    port: int,
    how: str,
    host: str,
    as_written: str,
) -> None:
    assert is_refused(how, answers[how, host], f"{as_written}:{port} may not be reached")
    assert line(how, as_written, port) in refusals


def test_the_proxy_refuses_the_hosts_own_addresses_in_words_and_writes_it_down(
    answers: dict[tuple[str, str], str],
    refusals: set[tuple[str, str]],
    port: int,
    own: dict[str, str],
) -> None:
    for host, as_written in own.items():
        for how in HOW:
            answer = answers[how, host]
            assert is_refused(how, answer, f"{as_written}:{port} may not be reached"), answer
            assert line(how, as_written, port) in refusals


@pytest.mark.parametrize("host", MADE_NAMES)
def test_a_name_that_is_allowed_and_leads_inside_is_refused(
    guest: LiveKernel, port: int, host: str
) -> None:
    guest.run(f"%egress allow {host}:{port}")
    answers = ask(guest, [(how, host, port) for how in HOW])
    for (how, _), answer in answers.items():
        assert is_refused(how, answer, f"{host} leads to {MADE_NAMES[host]}"), answer
        assert line(how, host, port) in refused(guest)


def test_nobody_has_come_through(
    answers: dict[tuple[str, str], str], listening: socket.socket
) -> None:
    assert answers
    assert select.select([listening], [], [], 0)[0] == []


def test_no_socket_of_the_hosts_file_system_is_there(guest: LiveKernel, home: Home) -> None:
    known = re.findall(r" (/\S+|@\S+)$", Path("/proc/net/unix").read_text(), re.MULTILINE)
    mine = {str(path) for path in home.root.rglob("*") if path.is_socket()}
    names = sorted({*known, *mine, "/var/run/docker.sock", "/run/systemd/private"})[:500]
    call = "ended(lambda: call(socket.AF_UNIX, name.replace('@', '\\0')))"
    said = json.loads(guest.value(f"json.dumps([{call} for name in {names!r}])"))
    assert "done" not in said


def test_the_devices_are_disks_and_ports_and_nothing_more(guest: LiveKernel) -> None:
    # By virtio's numbers; a socket would be 19, a file system 26, a balloon 5.
    kinds = guest.run("!cat /sys/bus/virtio/devices/*/device").text.split()
    assert {int(kind, 16) for kind in kinds} == {2, 3}
    assert guest.value("*os.listdir('/sys/bus/pci/devices')") == ""


GARBLE = """
import ctypes, glob, os
# A port is open already, for one at a time: a process of root's takes it from who has it.
def taken(port):
    for fd in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            found = os.readlink(fd) == f"/dev/{port}"
        except OSError:
            continue
        if found:
            _, _, process, _, number = fd.split("/")
            return ctypes.CDLL(None).syscall(438, os.pidfd_open(int(process)), int(number), 0)
def garble(name):
    for port in os.listdir("/sys/class/virtio-ports"):
        if open(f"/sys/class/virtio-ports/{port}/name").read().strip() == name:
            print(os.write(taken(port), bytes(range(256)) * 8))
"""


@pytest.mark.parametrize("name", ["control", "kernel", "streams"])
def test_who_garbles_a_port_breaks_no_more_than_the_own_machine(
    guest: LiveKernel, name: str
) -> None:
    guest.run(GARBLE)
    guest.run(f"%fork 1 --names {name}")
    cell = guest.finish(guest.start(f"%%branch {name}\ngarble({name!r})"))
    # Without guestd or its relay a machine has no kernel; without streams, no way out.
    assert cell.status == ("ok" if name == "streams" else "error"), cell.text
    assert ("could not be understood" in cell.text) == (name != "streams")
    assert guest.value("1 + 1") == "2"
    guest.run(f"%drop {name}")
    (answer,) = ask(guest, [("http", "after.example.org", 80)]).values()
    assert is_refused("http", answer, "after.example.org:80 may not be reached")

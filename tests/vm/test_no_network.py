"""The guest has no network card: nothing in it reaches the host, its network or the world."""

import ipaddress
import json
import socket
import subprocess

import pytest
from tests.support.live_kernel import LiveKernel, command_line

pytestmark = pytest.mark.vm

UNREACHABLE = ("ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL")

CONNECT = """
import errno, json, socket
def attempt(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as caller:
        caller.settimeout(60)
        try:
            caller.connect((address, port))
        except OSError as error:
            return errno.errorcode.get(error.errno, type(error).__name__)
    return "connected"
"""


def host_addresses() -> list[str]:
    """The host's own, but for those that mean the guest itself in the guest."""
    said = subprocess.run(["hostname", "-I"], check=False, capture_output=True, text=True).stdout
    found = [word for word in said.split() if not ipaddress.ip_address(word).is_link_local]
    return [word for word in found if not ipaddress.ip_address(word).is_loopback]


@pytest.fixture(scope="module")
def guest(shared_kernel: LiveKernel) -> LiveKernel:
    shared_kernel.run(CONNECT)
    return shared_kernel


def attempts(guest: LiveKernel, addresses: list[str], port: int) -> set[str]:
    """How connecting to each of the addresses ended."""
    said = guest.run(f"print(json.dumps([attempt(it, {port}) for it in {addresses!r}]))").text
    return set(json.loads(said))


def test_the_only_interface_is_the_loopback(guest: LiveKernel) -> None:
    assert guest.value("*__import__('os').listdir('/sys/class/net')") == "lo"


def test_no_device_of_the_machine_is_a_network_card(guest: LiveKernel) -> None:
    # 1 is virtio's number for a network device.
    kinds = guest.run("!cat /sys/bus/virtio/devices/*/device").text.split()
    assert kinds
    assert 1 not in {int(kind, 16) for kind in kinds}


def test_there_is_no_route(guest: LiveKernel) -> None:
    assert guest.value("open('/proc/net/route').read().splitlines()[1:]") == "[]"


def test_the_hosts_own_addresses_are_unreachable(guest: LiveKernel) -> None:
    with socket.create_server(("0.0.0.0", 0)) as listening:
        port = listening.getsockname()[1]
        usual = ["10.0.2.2", "10.0.2.3", "169.254.169.254", "192.168.122.1", "172.17.0.1"]
        assert attempts(guest, [*usual, *host_addresses()], port) <= set(UNREACHABLE)


def test_a_service_on_the_hosts_loopback_is_not_the_guests(guest: LiveKernel) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert attempts(guest, ["127.0.0.1"], port) == {"ECONNREFUSED"}


def test_the_world_is_unreachable(guest: LiveKernel) -> None:
    assert attempts(guest, ["8.8.8.8", "1.1.1.1", "2001:4860:4860::8888"], 53) <= set(UNREACHABLE)


def test_names_are_not_resolved(guest: LiveKernel) -> None:
    code = """
try:
    print(socket.getaddrinfo("example.org", 80))
except socket.gaierror:
    print("no")
"""
    assert guest.run(code).text.strip() == "no"


def test_packets_sent_anywhere_have_no_way_out(guest: LiveKernel) -> None:
    code = """
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    for address in ("8.8.8.8", "255.255.255.255", "224.0.0.251"):
        try:
            sender.sendto(b"hello", (address, 53))
        except OSError as error:
            print(errno.errorcode[error.errno])
"""
    assert set(guest.run(code).text.split()) <= set(UNREACHABLE)


@pytest.mark.parametrize("option", [b"netdev", b"-net\0", b"-nic\0", b"virtio-net", b"vhost"])
def test_qemu_is_started_without_any_network(guest: LiveKernel, option: bytes) -> None:
    (machine,) = guest.machines
    assert option not in command_line(machine)


def test_a_fork_has_no_network_either(guest: LiveKernel) -> None:
    guest.run("%fork 1 --names fork")
    code = "*__import__('os').listdir('/sys/class/net'), attempt('8.8.8.8', 53)"
    assert guest.values(code, ["fork"]) == {"fork": "lo ENETUNREACH"}

"""A client that launches kernel.json's argv itself, as VS Code does, has a whole kernel."""

import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.support.live_kernel import children, is_qemu, wait_until
from tests.support.quickstart import assert_last_cell, sources
from tests.support.raw_client import RawClient, kernel_spec, launched, write_connection_file

from branchpoint_vmruntime.home import Home

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def client(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Generator[RawClient]:
    """A client and the kernel it launched."""
    assert home.database.exists()
    with launched(write_connection_file(tmp_path_factory.mktemp("raw"))) as started:
        yield started


def machines(client: RawClient) -> list[int]:
    return [pid for pid in children(client.process.pid) if is_qemu(pid)]


def prints(client: RawClient, request: str, wanted: str) -> None:
    def printed(message: dict[str, Any]) -> bool:
        return wanted in message["content"].get("text", "")

    client.wait_output(request, printed)


def test_it_is_told_to_interrupt_by_message() -> None:
    assert kernel_spec()["interrupt_mode"] == "message"


def test_it_runs_the_quickstart(client: RawClient) -> None:
    runs = [client.run(code) for code in sources()]
    assert [error for ran in runs for error in ran.errors] == []
    assert {ran.status for ran in runs} == {"ok"}
    assert_last_cell(runs[-1].text)


def test_its_interrupt_request_stops_a_loop(client: RawClient) -> None:
    sent = client.start("print('on', flush=True)\nwhile True: pass")
    prints(client, sent, "on")
    asked = client.send("interrupt_request", {}, "control")
    assert client.reply(asked, "control")["content"] == {"status": "ok"}
    assert client.finish(sent).errors == ["KeyboardInterrupt"]


def test_signals_to_the_whole_process_group_neither_end_nor_interrupt_anything(
    client: RawClient,
) -> None:
    before = machines(client)
    sent = client.start("import time; print('on', flush=True); time.sleep(2); print('slept')")
    prints(client, sent, "on")
    for _ in range(3):
        os.killpg(client.process.pid, signal.SIGINT)
    ran = client.finish(sent)
    assert (ran.status, ran.text) == ("ok", "on\nslept\n")
    assert set(before) <= set(machines(client))


def test_it_restarts_the_kernel_on_the_same_ports(home: Home, tmp_path: Path) -> None:
    assert home.database.exists()
    file = write_connection_file(tmp_path)
    with launched(file) as first:
        assert first.run("x = 1\n%checkpoint saved").status == "ok"
        first.shut_down(restart=True)
        assert first.process.returncode == 0
    with launched(file) as second:
        assert second.run("x").errors == ["NameError"]
        assert second.run("%rollback saved\nprint(x)").text == "1\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_that_ends_the_process_group_ends_the_machines_too(
    home: Home, tmp_path: Path, number: signal.Signals
) -> None:
    assert home.database.exists()
    with launched(write_connection_file(tmp_path)) as client:
        client.run("1")
        had = machines(client)
        assert had
        os.killpg(client.process.pid, number)
        assert wait_until(lambda: not any(map(is_qemu, had)))

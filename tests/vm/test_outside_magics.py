"""The outside world's magics on a real machine, against a server on this host."""

import csv
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.support.live_kernel import LiveKernel

pytestmark = pytest.mark.vm

ASK = """
import http.client
def ask(method, port, path="/"):
    proxy = http.client.HTTPConnection("127.0.0.1", 3128, timeout=60)
    proxy.request(method, f"http://127.0.0.1:{port}{path}")
    reply = proxy.getresponse()
    return reply.status, reply.read().decode()
"""


class Shop(BaseHTTPRequestHandler):
    """Takes orders and keeps count of them, and of the secrets it was shown."""

    orders = 0
    shown: list[str | None]

    def do_GET(self) -> None:
        """How many there are."""
        self.shown.append(self.headers["X-Token"])
        self._answer(200, f"{self.orders} orders")

    def do_POST(self) -> None:
        """One more."""
        type(self).orders += 1
        self._answer(201, "taken")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base's name)
        """Say nothing."""

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture(scope="module")
def shop() -> Generator[int]:
    """Its port."""
    Shop.orders, Shop.shown = 0, []
    with ThreadingHTTPServer(("127.0.0.1", 0), Shop) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def opened(shared_kernel: LiveKernel, shop: int) -> LiveKernel:
    """A kernel that may reach the shop."""
    shared_kernel.run(ASK)
    refused = shared_kernel.value(f"ask('GET', {shop})")
    assert refused.startswith("(403,"), refused
    assert "%egress allow" in refused
    told = shared_kernel.run(f"%egress allow 127.0.0.1:{shop} --private")
    assert f"127.0.0.1:{shop}, private addresses too" in told.text
    return shared_kernel


def test_what_was_refused_and_is_allowed_now_is_shown(opened: LiveKernel, shop: int) -> None:
    assert opened.value(f"ask('GET', {shop})") == "(200, '0 orders')"
    told = opened.run("%egress")
    assert "refused last" in told.text
    assert f"GET http://127.0.0.1:{shop}/" in told.text


def test_a_rollback_names_the_order_it_does_not_undo(opened: LiveKernel, shop: int) -> None:
    opened.run("%checkpoint before")
    assert opened.value(f"ask('POST', {shop}, '/orders')") == "(201, 'taken')"
    opened.run(f"ask('GET', {shop})")
    preview = opened.run("%rollback before --preview")
    assert "1 external action since then would not be undone: POST" in preview.text
    told = opened.run("%rollback before")
    assert "⚠ 1 external action since then was not undone: POST" in told.text
    assert "/orders 201" in told.text
    assert "; and 1 read" in told.text
    (order, _) = told.record["effects"]
    assert (order["method"], order["status"], order["branch"]) == ("POST", 201, "main")
    assert opened.value(f"ask('GET', {shop})") == f"(200, '{Shop.orders} orders')"


def test_what_has_left_is_in_the_ledger_by_branch_and_since(opened: LiveKernel, shop: int) -> None:
    opened.run("%checkpoint here")
    opened.run("%fork 1 --names ordering")
    opened.run(f"%%branch ordering\nask('POST', {shop}, '/from-the-fork')")
    entries: list[dict[str, Any]] = opened.run("%ledger --since here").record["entries"]
    assert [(each["branch"], each["status"]) for each in entries] == [("ordering", 201)]
    assert opened.run("%ledger --branch main --since here").record["entries"] == []
    costs = {each["branch"]: each for each in opened.run("%costs").record["costs"]}
    assert costs["ordering"]["requests"] == 1
    assert costs["main"]["forks"] == 1
    opened.run("%drop ordering")
    costs = {each["branch"]: each for each in opened.run("%costs").record["costs"]}
    assert (costs["ordering"]["state"], costs["ordering"]["requests"]) == ("dropped", 1)


def test_code_in_the_machine_cannot_open_the_edge(opened: LiveKernel) -> None:
    failed = opened.run("for _ in range(1):\n    %egress allow example.org", expect="error")
    assert "only a cell of the notebook may open what leaves" in failed.text
    assert "example.org" not in opened.run("%egress").text


def test_a_secret_reaches_its_host_and_the_machine_has_a_placeholder(
    opened: LiveKernel, shop: int, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("s3cr3t-token\n")
    added = opened.run(
        f"%secrets add TOKEN --host 127.0.0.1:{shop} --header 'X-Token: {{}}' --from file:{file}"
    )
    assert 'os.environ["TOKEN"]' in added.text
    shown = opened.run(f"import os\nprint(os.environ['TOKEN'])\nask('GET', {shop})")
    assert Shop.shown[-1] == "s3cr3t-token"
    assert "branchpoint-TOKEN-" in shown.text
    assert "s3cr3t" not in shown.text
    opened.run("%secrets remove TOKEN")
    assert "there are no secrets" in opened.run("%secrets").text


def test_files_go_in_and_out(opened: LiveKernel, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4096
    (tmp_path / "in here.bin").write_bytes(content)
    put = opened.run(f"%put '{tmp_path}/in here.bin' --to data/")
    assert put.record["files"][0]["machine"] == "/root/data/in here.bin"
    count = "len(open('/root/data/in here.bin', 'rb').read())"
    assert opened.value(count) == str(len(content))
    got = opened.run(f"%get 'data/in here.bin' --to {tmp_path}/out.bin")
    assert "1.0 MB" in got.text
    assert (tmp_path / "out.bin").read_bytes() == content
    failed = opened.run("%get none.bin", expect="error")
    assert failed.error_name == "TransferError"
    assert "none.bin" in failed.text


def test_costs_are_drawn_and_written_down(opened: LiveKernel, tmp_path: Path) -> None:
    opened.run("%checkpoint costly")
    table, charts = opened.run("%costs").displays
    assert "text/html" in table
    assert charts["image/png"].startswith("iVBOR")
    assert "checkpoint" in charts["text/plain"]
    opened.run(f"%costs --csv {tmp_path}/costs.csv")
    with (tmp_path / "costs.csv").open(newline="") as file:
        saved = next(row for row in csv.DictReader(file) if row["label"] == "costly")
    assert saved["operation"] == "checkpoint"
    assert float(saved["total_ms"]) >= float(saved["paused_ms"]) > 0
    with (tmp_path / "costs-branches.csv").open(newline="") as file:
        main = next(row for row in csv.DictReader(file) if row["branch"] == "main")
    added = int(saved["new_memory_bytes"]) + int(saved["new_disk_bytes"])
    assert int(main["disk_bytes"]) >= added > 0
    parts = [float(main[f"{part}_ms"]) for part in ("spawn", "load", "clock", "renew", "kernel")]
    assert float(main["awake_ms"]) == pytest.approx(sum(parts))

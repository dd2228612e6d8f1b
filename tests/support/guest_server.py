"""A web server for machines: it tells of its process, and echoes over WebSockets."""

import base64
import http.client
import json
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from tests.support.live_kernel import LiveKernel

PORT = 8000
HOST = "127.0.0.1"
PATIENCE_S = 60.0

# Runs in the kernel's own process: another Python takes seconds to start where it is emulated.
SERVER = f"""
import base64, hashlib, http.server, json, os, socket, threading

class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked = 0

    def do_GET(self):
        if self.headers.get("Upgrade", "").lower() == "websocket":
            return self.echo()
        if self.path == "/talk":
            return self.answer("text/html", TALK)
        Page.asked += 1
        facts = {{"pid": os.getpid(), "asked": Page.asked, "host": socket.gethostname()}}
        self.answer("application/json", json.dumps(facts))

    def answer(self, kind, text):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def echo(self):
        accept = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        digest = base64.b64encode(hashlib.sha1(accept.encode()).digest()).decode()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", digest)
        self.end_headers()
        self.close_connection = True
        while head := self.rfile.read(2):
            kind, length = head
            key, payload = self.rfile.read(4), self.rfile.read(length & 127)
            said = bytes(byte ^ key[at % 4] for at, byte in enumerate(payload))
            if kind & 15 == 8:
                self.wfile.write(bytes([kind, len(said)]) + said)
                return
            self.wfile.write(bytes([kind, len(said)]) + said.upper())

    def log_message(self, *arguments):
        pass

TALK = '''<!doctype html><title>from the machine</title><p id="said">nothing yet</p><script>
const talk = new WebSocket("ws://" + location.host + "/socket");
talk.onopen = () => talk.send("hello");
talk.onmessage = (event) => {{ document.getElementById("said").textContent = event.data; }};
</script>'''
server = http.server.ThreadingHTTPServer(("127.0.0.1", {PORT}), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
"""


def forward(kernel: LiveKernel, rest: str = "", port: int = PORT) -> dict[str, Any]:
    """Forward a port of a machine; what the record says of that forward."""
    told = kernel.run(f"%forward {port} {rest}").record["forwards"]
    return next(it for it in reversed(told) if it["port"] == port)


def ask(host_port: int) -> dict[str, Any]:
    """What the server says of its process, on a connection of its own."""
    with connection(host_port) as asking:
        return ask_again(asking)


@contextmanager
def connection(host_port: int) -> Generator[http.client.HTTPConnection]:
    """A connection that may be asked several times."""
    asking = http.client.HTTPConnection(HOST, host_port, timeout=PATIENCE_S)
    try:
        yield asking
    finally:
        asking.close()


def ask_again(asking: http.client.HTTPConnection) -> dict[str, Any]:
    """What the server says of its process, on a connection that is there."""
    asking.request("GET", "/")
    return json.loads(asking.getresponse().read())


class WebSocket:
    """A client of an echo, which knows short messages of text."""

    def __init__(self, host_port: int) -> None:
        self._socket = socket.create_connection((HOST, host_port), timeout=PATIENCE_S)
        self._reader = self._socket.makefile("rb")
        key = base64.b64encode(os.urandom(16)).decode()
        headers = (
            "GET /socket HTTP/1.1",
            f"Host: {HOST}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
        )
        self._socket.sendall("\r\n".join([*headers, "", ""]).encode())
        self.status = int(self._reader.readline().split()[1])
        while self._reader.readline().strip():
            continue

    def say(self, words: str) -> str:
        """Say something; what comes back."""
        key, said = os.urandom(4), words.encode()
        masked = bytes(byte ^ key[at % 4] for at, byte in enumerate(said))
        self._socket.sendall(bytes([0x81, 0x80 | len(said)]) + key + masked)
        _, length = self._reader.read(2)
        return self._reader.read(length).decode()

    def close(self) -> None:
        """Hang up."""
        self._reader.close()
        self._socket.close()

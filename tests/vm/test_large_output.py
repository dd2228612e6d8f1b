"""Large displays, buffers and children's output pass whole, and control does not wait for them."""

import hashlib
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.support.live_kernel import LiveKernel

pytestmark = pytest.mark.vm

MB = 1 << 20
NAMES = ("stdout", "stderr")
# Emulated on a busy host the largest display takes minutes.
PATIENCE_S = 280.0

DISPLAY = """
import hashlib, os
data = os.urandom(1 << 19).hex() * {size_mb}
display({{"application/x-large": data}}, raw=True)
print(hashlib.sha256(data.encode()).hexdigest())
"""

COMM = """
import hashlib, os
from comm import create_comm
block = os.urandom(20 << 20)
comm = create_comm(target_name="blocks", data={"digest": hashlib.sha256(block).hexdigest()},
                   buffers=[block])
@comm.on_msg
def hear(message):
    comm.send({"digest": hashlib.sha256(message["buffers"][0]).hexdigest()})
"""

CHILD = """
import subprocess, sys
write = '''import os
for number in range(1000):
    for fd in (1, 2):
        os.write(fd, b"%09999d\\\\n" % number)'''
_ = subprocess.run([sys.executable, "-c", write])
"""


@dataclass
class Heard:
    """Messages in the order in which they came, of any channel, each under its channel's name."""

    messages: list[tuple[str, dict[str, Any]]] = field(
        default_factory=list[tuple[str, dict[str, Any]]]
    )

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Those of a type."""
        return [message for _, message in self.messages if message["msg_type"] == kind]

    @property
    def idle(self) -> bool:
        """Whether a request on the shell channel has come to its end."""
        states = [message["content"]["execution_state"] for message in self.of("status")]
        return "idle" in states


def listen(kernel: LiveKernel, parents: list[str], enough: Callable[[Heard], bool]) -> Heard:
    """Everything that comes of these requests, until it is enough."""
    heard = Heard()
    takers = {
        "control": kernel.client.get_control_msg,
        "shell": kernel.client.get_shell_msg,
        "iopub": kernel.client.get_iopub_msg,
    }
    deadline = time.monotonic() + PATIENCE_S
    while not enough(heard):
        assert time.monotonic() < deadline, [kind for kind, _ in heard.messages]
        for channel, take in takers.items():
            try:
                message = take(timeout=0.05 if channel == "iopub" else 0)
            except queue.Empty:
                continue
            if message["parent_header"].get("msg_id") in parents:
                heard.messages.append((channel, message))
    return heard


def ask(kernel: LiveKernel, channel: str, kind: str, content: dict[str, Any], **more: Any) -> str:
    """Send a request; its id."""
    message = kernel.client.session.msg(kind, content)
    sockets = {
        "control": kernel.client.control_channel.socket,
        "shell": kernel.client.shell_channel.socket,
    }
    kernel.client.session.send(sockets[channel], message, **more)
    return str(message["header"]["msg_id"])


def is_as_made(heard: Heard, size_mb: int) -> bool:
    """Whether the display is what the kernel says it made."""
    (shown,) = heard.of("display_data")
    # A line and its end may come apart.
    printed = "".join(message["content"]["text"] for message in heard.of("stream"))
    data = shown["content"]["data"]["application/x-large"]
    digest = hashlib.sha256(data.encode()).hexdigest()
    return len(data) == size_mb * MB and digest == printed.strip()


@pytest.mark.parametrize("size_mb", [1, 16])
def test_a_large_display_arrives_as_it_was_made(shared_kernel: LiveKernel, size_mb: int) -> None:
    asked = shared_kernel.client.execute(DISPLAY.format(size_mb=size_mb), allow_stdin=False)
    assert is_as_made(listen(shared_kernel, [asked], lambda heard: heard.idle), size_mb)


def test_a_display_of_128_mb_arrives_and_control_is_answered_before_it_is_there(
    shared_kernel: LiveKernel,
) -> None:
    shown = shared_kernel.client.execute(DISPLAY.format(size_mb=128), allow_stdin=False)
    asked = ask(shared_kernel, "control", "usage_request", {})
    heard = listen(shared_kernel, [shown, asked], lambda heard: bool(heard.of("stream")))
    kinds = [message["msg_type"] for _, message in heard.messages]
    assert is_as_made(heard, 128)
    assert kinds.index("usage_reply") < kinds.index("display_data")


def test_a_buffer_of_20_mb_passes_byte_for_byte_both_ways(shared_kernel: LiveKernel) -> None:
    asked = shared_kernel.client.execute(COMM, allow_stdin=False)
    heard = listen(shared_kernel, [asked], lambda heard: heard.idle)
    (opened,) = heard.of("comm_open")
    (block,) = opened["buffers"]
    assert hashlib.sha256(block).hexdigest() == opened["content"]["data"]["digest"]
    content: dict[str, Any] = {"comm_id": opened["content"]["comm_id"], "data": {}}
    sent = ask(shared_kernel, "shell", "comm_msg", content, buffers=[bytes(block)[::-1]])
    (answer,) = listen(shared_kernel, [sent], lambda heard: heard.idle).of("comm_msg")
    assert answer["content"]["data"]["digest"] == hashlib.sha256(bytes(block)[::-1]).hexdigest()


def test_10_mb_from_a_child_s_standard_files_arrive_whole(shared_kernel: LiveKernel) -> None:
    written = "".join(f"{number:09999}\n" for number in range(1000))

    def text(heard: Heard, name: str) -> str:
        contents = [message["content"] for message in heard.of("stream")]
        return "".join(content["text"] for content in contents if content["name"] == name)

    def whole(heard: Heard) -> bool:
        # Some of it comes after the cell's idle, as with stock ipykernel.
        return heard.idle and all(len(text(heard, name)) >= len(written) for name in NAMES)

    asked = shared_kernel.client.execute(CHILD, allow_stdin=False)
    heard = listen(shared_kernel, [asked], whole)
    assert [text(heard, name) == written for name in NAMES] == [True, True]

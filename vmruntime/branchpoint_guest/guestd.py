"""The guest's first process.

Answers the host, brings the user's processes to rest and back, reaps the dead.
"""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import IO, Any

from branchpoint_guest import wire
from branchpoint_guest.calls import ADDRESS, Calls
from branchpoint_guest.freezer import FreezeTimeoutError, UserCgroup
from branchpoint_guest.installing import install
from branchpoint_guest.kernel_process import (
    QUESTIONS_SOCKET,
    RUN,
    KernelProcess,
    user_environment,
)
from branchpoint_guest.outfit import Outfit
from branchpoint_guest.ports import ControlPort, find_port
from branchpoint_guest.questions import Questions
from branchpoint_guest.stream_process import StreamProcess
from branchpoint_guest.waking import IDENTITY, Waking

_FREEZE_TIMEOUT_S = 5.0
_DRAIN_TIMEOUT_S = 20.0
_HOOK_TIMEOUT_S = 5.0
_CLOCK_TIMEOUT_S = 10.0
_OUTPUT_LIMIT = 8 << 20

Message = dict[str, Any]


class CommandError(Exception):
    """The host asked for something that could not be done; the text is for the host's user."""


class Guestd:
    """The loop and the handlers of what the host asks.

    One message, one handler, one reply under the same id.
    """

    def __init__(
        self,
        port: ControlPort,
        cgroup: UserCgroup,
        waking: Waking,
        calls_address: str,
        streams: StreamProcess,
    ) -> None:
        self._port = port
        self._cgroup = cgroup
        self._waking = waking
        self._streams = streams
        self._calls = Calls(calls_address, port.send_text)
        self._questions = Questions()
        self._at_rest = False
        self._poller = select.poll()
        self._kernel: KernelProcess | None = None
        self._commands: dict[int, _Command] = {}
        self._identity_text = "{}"
        self._outfit = Outfit(RUN)
        self._handlers: dict[str, Callable[[Message], Message | None]] = {
            "ping": self._ping,
            "start": self._start,
            "freeze": self._freeze,
            "thaw": self._thaw,
            "interrupt": self._interrupt,
            "run": self._run,
            "exec": self._exec,
            "answer": self._answer,
            "variables": self._variables,
            "outfit": self._take_outfit,
            "environment": self._tell_environment,
        }

    def serve(self) -> None:
        """Serve the host until the machine ends."""
        wakeup, child_signal = os.pipe()
        os.set_blocking(child_signal, False)
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(child_signal, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _note_nothing)
        self._poller.register(self._port.fd, select.POLLIN)
        self._poller.register(wakeup, select.POLLIN)
        self._listen_to_user()
        self._port.send({"op": "booted", "uptime_s": time.monotonic()})
        relay_fd = -1
        self._poller.register(self._streams.link.sock, select.POLLIN)
        while True:
            if self._kernel and relay_fd < 0:
                relay_fd = self._kernel.relay_link.sock.fileno()
                self._poller.register(relay_fd, select.POLLIN)
            ready = dict(self._poller.poll())
            if self._port.fd in ready:
                self._serve_host()
            if wakeup in ready:
                os.read(wakeup, 4096)
                self._reap()
            if self._kernel and relay_fd in ready:
                self._pass_on_relay_messages(self._kernel)
                if self._kernel.relay_link.closed:
                    self._poller.unregister(relay_fd)
            if self._streams.link.sock.fileno() in ready and self._streams.note_end():
                self._poller.unregister(self._streams.link.sock)
                self._port.send({"op": "streams-ended"})
            if not self._at_rest:
                self._calls.serve()
                self._questions.serve()

    def _serve_host(self) -> None:
        for frame in self._port.receive_nowait():
            if frame.kind == wire.WAKE:
                self._wake(wire.unpack_fields(frame.body))
            elif frame.kind == wire.CONTROL:
                self._handle(wire.decode_control(frame))

    def _listen_to_user(self) -> None:
        """Hear what the user's processes ask and answer; at rest no byte of it may go out."""
        self._at_rest = False
        self._poller.register(self._calls, select.POLLIN)
        self._poller.register(self._questions, select.POLLIN)

    def _be_deaf_to_user(self) -> None:
        self._at_rest = True
        self._poller.register(self._calls, 0)
        self._poller.register(self._questions, 0)

    def _handle(self, message: Message) -> None:
        try:
            answer = self._handlers.get(str(message.get("op")), _unknown)(message)
        except (CommandError, FreezeTimeoutError, OSError, TimeoutError) as error:
            answer = {"error": str(error)}
        except Exception as error:
            # Of an order gone wrong in a way not foreseen the machine must not die, as it does when
            # its first process ends.
            answer = {"error": f"{type(error).__name__}: {error}"}
        if answer is not None:
            self._port.send({"op": "reply", "id": message.get("id"), **answer})

    def _ping(self, _: Message) -> Message:
        return {"uptime_s": time.monotonic()}

    def _start(self, message: Message) -> Message:
        self._identity_text = message["identity"]
        self._waking.take_identity(message["identity"], message["host_name"])
        self._kernel = KernelProcess(self._cgroup, message["argv"], message["environment"])
        return {"pid": self._kernel.kernel.pid}

    def _freeze(self, message: Message) -> Message:
        started = time.monotonic()
        self._cgroup.freeze(_FREEZE_TIMEOUT_S)
        frozen = time.monotonic()
        # Before the relay, which waits a moment by itself.
        self._streams.drain(message.get("streamed", -1))
        sent = 0
        if self._kernel and not self._kernel.relay_link.closed:
            answer = self._kernel.relay_link.ask_line(
                f"drain {message['sent']}", "drained", _DRAIN_TIMEOUT_S
            )
            if answer is None:
                self._cgroup.thaw()
                raise CommandError("messages on their way to the host could not be drained")
            sent = int(answer)
        streamed = self._streams.drained(_DRAIN_TIMEOUT_S)
        self._be_deaf_to_user()
        return {
            "sent": sent,
            "streamed": streamed,
            "phases_ms": _phases(freeze=frozen - started, drain=time.monotonic() - frozen),
        }

    def _thaw(self, _: Message) -> Message:
        self._set_clock()
        self._resume_relay()
        self._streams.resume(self._port.generation)
        self._cgroup.thaw()
        self._listen_to_user()
        return {}

    def _wake(self, order: list[str]) -> None:
        """Become a new incarnation. No JSON here, and nothing made that need not be.

        Every machine starts with nothing translated, so each path walked for the first time costs
        milliseconds when emulated, while the user's processes wait.
        """
        started = time.monotonic()
        number, generation, entropy, reseed, identity, host_name, reason, *names = order
        self._port.generation = int(generation)
        self._set_clock()
        clock = time.monotonic()
        self._waking.add_entropy(bytes.fromhex(entropy))
        self._waking.take_identity(identity, host_name)
        self._identity_text = identity
        self._cgroup.thaw()
        thawed = time.monotonic()
        nonce, reseeded = "", ""
        if self._kernel and self._kernel.hook:
            nonce, reseeded = self._kernel.hook.greet([*names, reason, reseed], _HOOK_TIMEOUT_S)
        # After the kernel knows who it is: what a call returns to may ask.
        self._calls.wake(reason, *names)
        self._listen_to_user()
        # Last, since it wakes the relay, which would compete with the kernel's answer; the host
        # sends it nothing before it has ours.
        self._resume_relay()
        instants = (started, clock, thawed, time.monotonic())
        self._port.send_fields([number, nonce, reseeded, *(str(int(1e6 * at)) for at in instants)])
        # Later still: what the host may have sent it by now waits in the port.
        if self._streams.wake(self._port.generation):
            self._poller.register(self._streams.link.sock, select.POLLIN)

    def _set_clock(self) -> None:
        self._waking.set_clock(*self._port.ask_time(_CLOCK_TIMEOUT_S))

    def _resume_relay(self) -> None:
        if self._kernel and not self._kernel.relay_link.closed:
            self._kernel.relay_link.send_line(f"resume {self._port.generation}")

    def _interrupt(self, _: Message) -> Message:
        if self._kernel is None or self._kernel.kernel.poll() is not None:
            raise CommandError("there is no kernel to interrupt")
        self._kernel.interrupt()
        return {}

    def _run(self, message: Message) -> None:
        if self._kernel is None or self._kernel.relay_link.closed:
            raise CommandError("there is no kernel to run code in")
        # An answer that comes in another incarnation is nobody's: ids are not unique across them.
        asked = {**message, "id": [self._port.generation, message["id"]]}
        self._kernel.relay_link.send_line(f"run {json.dumps(asked)}")

    def _pass_on_relay_messages(self, kernel: KernelProcess) -> None:
        for word, rest in kernel.relay_link.receive_nowait():
            match word:
                case "ran":
                    self._pass_on_result(json.loads(rest))
                case "ready":
                    kernel.connect_hook()
                    self._port.send({"op": "kernel-ready"})
                case _:
                    pass
        if kernel.relay_link.closed:
            self._port.send({"op": "relay-ended"})

    def _pass_on_result(self, result: Message) -> None:
        generation, number = result["id"]
        if generation == self._port.generation:
            self._port.send({**result, "op": "reply", "id": number})

    def _answer(self, message: Message) -> Message:
        self._calls.answer(message["call"], message["answer"])
        return {}

    def _take_outfit(self, message: Message) -> Message:
        given = (message[what] for what in ("environment", "files", "digests"))
        return {"lacking": self._outfit.take(*given)}

    def _tell_environment(self, message: Message) -> Message | None:
        return self._ask_hook(message, "environment", json.dumps(message["environment"]))

    def _variables(self, message: Message) -> Message | None:
        return self._ask_hook(message, "variables", str(int(message["repr_limit"])))

    def _ask_hook(self, message: Message, word: str, rest: str) -> Message | None:
        """Reply with what the hook in the kernel says, whenever that is; None if there is none."""
        if self._kernel is None or self._kernel.hook is None:
            return {word: None}
        generation = self._port.generation

        def take(answer: bytes | None) -> None:
            if generation != self._port.generation:
                return
            head = b'{"op": "reply", "id": %d, ' % message["id"]
            if answer is None:
                self._port.send_text(head, b'"error": "the kernel gave no answer to %s"}' % name)
            else:
                self._port.send_text(head, b'"%s": ' % name, answer, b"}")

        name = word.encode()
        try:
            timeout_s = float(message["timeout_s"])
            self._questions.ask(QUESTIONS_SOCKET, f"{word} {rest}", take, timeout_s)
        except OSError as error:
            raise CommandError(f"the kernel cannot be asked: {error.strerror}") from error
        return None

    def _exec(self, message: Message) -> None:
        environment = self._outfit.dress(user_environment()) | {
            f"BRANCHPOINT_{name.upper()}": str(value)
            for name, value in json.loads(self._identity_text).items()
        }
        command = _Command(message, self._cgroup, environment, self._port.generation)
        self._commands[command.process.pid] = command

    def _reap(self) -> None:
        while (dead := _next_dead()) is not None:
            command = self._commands.pop(dead, None)
            if command is not None:
                result = command.result()
                if command.generation == self._port.generation:
                    self._port.send({"op": "reply", "id": command.id, **result})
            elif self._kernel and dead == self._kernel.kernel.pid:
                self._report_kernel_end(self._kernel)
            elif self._kernel and dead == self._kernel.relay.pid:
                self._kernel.relay.wait()
            elif dead == self._streams.pid:
                self._streams.reap()
            else:
                os.waitpid(dead, 0)

    def _report_kernel_end(self, kernel: KernelProcess) -> None:
        used, limit = self._cgroup.memory_bytes()
        self._port.send(
            {
                "op": "kernel-ended",
                "status": kernel.kernel.wait(),
                "kills_for_memory": self._cgroup.kills_for_memory(),
                "memory_bytes": used,
                "memory_limit_bytes": limit,
            }
        )


class _Command:
    """A command of the host's, run among the user's processes, its output kept in unnamed files."""

    def __init__(
        self, message: Message, cgroup: UserCgroup, environment: dict[str, str], generation: int
    ) -> None:
        self.id = message["id"]
        self.generation = generation
        self._output, self._errors, stdin = (_unnamed_file() for _ in range(3))
        stdin.write(message.get("stdin", "").encode())
        stdin.seek(0)
        self.process = subprocess.Popen(
            message["argv"],
            cwd=message.get("cwd", "/root"),
            env=environment | message.get("environment", {}),
            stdin=stdin,
            stdout=self._output,
            stderr=self._errors,
            start_new_session=True,
            preexec_fn=cgroup.adopt_self,
        )

    def result(self) -> Message:
        status = self.process.wait()
        return {"status": status, "stdout": _text(self._output), "stderr": _text(self._errors)}


def _unnamed_file() -> IO[bytes]:
    return os.fdopen(os.open("/run", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600), "w+b")


def _unknown(message: Message) -> Message:
    raise CommandError(f"this guest does not know {message.get('op')!r}")


def _text(file: Any) -> str:
    file.seek(0)
    return file.read(_OUTPUT_LIMIT).decode(errors="replace")


def _next_dead() -> int | None:
    """The pid of a child that has ended, not yet waited for, so that its owner can do that."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return found.si_pid if found else None


def _note_nothing(_signal: int, _frame: FrameType | None) -> None:
    """A handler is needed for the wake-up descriptor to be written at all."""


def _phases(**seconds: float) -> dict[str, float]:
    return {name: round(1000 * value, 3) for name, value in seconds.items()}


def main(library: Path) -> None:
    """Set up what outlives every checkpoint, then serve."""
    os.environ.update(user_environment())
    Path(IDENTITY).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    Path("/proc/self/oom_score_adj").write_text("-1000")
    install(library)
    port = ControlPort(os.open(find_port("control"), os.O_RDWR | os.O_CLOEXEC))
    Guestd(port, UserCgroup(), Waking(), ADDRESS, StreamProcess.of_machine()).serve()

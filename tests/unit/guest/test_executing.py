"""Commands of the host's user, run by the guest's handler beside the test."""

import gc
import signal
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.exec_host import PATIENCE_S, ExecHost, Serving, serving

from branchpoint_guest import exec_frames as frames
from branchpoint_guest.exec_frames import ExecFrameError, Order
from branchpoint_guest.executing import execute
from branchpoint_guest.outfit import Outfit
from branchpoint_guest.starting import environment_of
from branchpoint_guest.stream_handlers import find_handler

BIG = bytes(range(256)) * 16384
SIZE = (31, 101)


def ran(*argv: str | bytes, folder: Path, stdin: bytes = b"", name: str = "") -> ExecHost:
    """A command's whole life, with a variable NAME."""
    with serving() as (host, _):
        host.order(*argv, folder=str(folder), NAME=name)
        host.give(stdin)
        host.wait()
        return host


def wait_until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_the_word_is_served() -> None:
    assert find_handler("exec") is execute


def test_output_and_errors_come_apart_with_the_status(tmp_path: Path) -> None:
    host = ran("sh", "-c", "echo out; echo err >&2; exit 7", folder=tmp_path)
    assert (host.output, host.errors, host.status) == (b"out\n", b"err\n", 7)


def test_a_command_that_a_signal_ends_says_which(tmp_path: Path) -> None:
    assert ran("sh", "-c", "kill -9 $$", folder=tmp_path).status == -signal.SIGKILL


def test_megabytes_pass_both_ways(tmp_path: Path) -> None:
    host = ran("cat", folder=tmp_path, stdin=BIG)
    assert host.output == BIG
    assert host.status == 0


def test_all_a_command_wrote_before_its_end_arrives(tmp_path: Path) -> None:
    code = "import os; os.write(1, b'x' * 60000); os.write(2, b'y' * 60000)"
    host = ran("python3", "-c", code, folder=tmp_path)
    assert (len(host.output), len(host.errors)) == (60000, 60000)


def test_a_command_that_reads_no_more_takes_nothing_and_is_given_all(tmp_path: Path) -> None:
    host = ran("sh", "-c", "head -c 3; exec <&-; sleep 0.2; echo", folder=tmp_path, stdin=BIG)
    assert host.output == BIG[:3] + b"\n"


def test_a_signal_passes_input_that_nobody_reads(tmp_path: Path) -> None:
    with serving() as (host, _):
        host.order("sleep", "100", folder=str(tmp_path))
        host.send(frames.INPUT, bytes(frames.PIECE_BYTES))
        host.send(frames.INPUT, bytes(frames.PIECE_BYTES))
        host.send(frames.SIGNAL, bytes([signal.SIGTERM]))
        assert host.wait() == -signal.SIGTERM


def test_a_signal_goes_to_all_of_the_commands_group(tmp_path: Path) -> None:
    with serving() as (host, _):
        host.order("sh", "-c", "sleep 100; echo not ended", folder=str(tmp_path))
        time.sleep(0.1)
        host.send(frames.SIGNAL, bytes([signal.SIGINT]))
        assert host.wait() == -signal.SIGINT
        assert host.output == b""


def test_the_bytes_of_arguments_and_variables_arrive_as_they_are(tmp_path: Path) -> None:
    odd = "grün 🌲".encode() + b"\xff\xfe"
    host = ran("sh", "-c", 'printf "%s|" "$@" "$NAME"', "-", odd, b"", folder=tmp_path, name="a=ö")
    assert host.output == odd + b"||a=\xc3\xb6|"


def test_it_runs_in_the_folder_that_is_asked_for(tmp_path: Path) -> None:
    assert ran("pwd", folder=tmp_path).output.decode().strip() == str(tmp_path)


@pytest.mark.parametrize(
    ("argv", "status", "words"),
    [
        (["no-such-thing"], 127, "no-such-thing: there is no such command in the machine"),
        ([""], 127, "no such command"),
        (["./plain"], 126, "it cannot be run: Permission denied"),
        (["./no-interpreter"], 126, "what its first line says shall run it"),
        (["./nothing"], 126, "it is no program"),
        (["./folder"], 126, "it cannot be run"),
    ],
)
def test_what_cannot_be_started_is_said_in_words_with_a_shells_status(
    tmp_path: Path, argv: list[str], status: int, words: str
) -> None:
    (tmp_path / "plain").write_text("text")
    (tmp_path / "no-interpreter").write_text("#!/no/such/interpreter\n")
    (tmp_path / "nothing").write_text("text")
    for name in ("no-interpreter", "nothing"):
        (tmp_path / name).chmod(0o755)
    (tmp_path / "folder").mkdir()
    host = ran(*argv, folder=tmp_path)
    assert host.status == status
    assert words in host.words


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    host = ran("true", folder=tmp_path / "none")
    assert host.status == 126
    assert "none: no folder in the machine to run it in" in host.words


def test_what_goes_on_in_the_background_neither_holds_the_command_nor_ends(tmp_path: Path) -> None:
    later = "(until test -e go; do sleep 0.02; done; yes | head -c 1000000; touch done) &"
    with serving() as (host, guest):
        host.order("sh", "-c", f"{later} echo begun", folder=str(tmp_path))
        assert host.wait() == 0
        assert host.output == b"begun\n"
        host.sock.close()
        guest.join()
        (tmp_path / "go").touch()
        assert wait_until((tmp_path / "done").exists)


def test_a_command_without_a_terminal_goes_on_when_it_is_cut_off(tmp_path: Path) -> None:
    work = "echo begun; cat; yes | head -c 1000000; touch done"
    with serving() as (host, guest):
        host.order("sh", "-c", work, folder=str(tmp_path))
        host.until(lambda: bool(host.output))
        host.sock.close()
        guest.join()
        assert wait_until((tmp_path / "done").exists)


def test_a_command_that_has_ended_is_waited_for(tmp_path: Path) -> None:
    with serving() as (host, _):
        host.order("sh", "-c", "echo $$; sleep 0.2", folder=str(tmp_path))
        host.until(lambda: host.output.endswith(b"\n"))
        pid = int(host.output)
        host.sock.close()
        assert wait_until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_terminal_has_its_size_and_is_told_of_another(tmp_path: Path) -> None:
    shell = "trap 'stty size; exit 3' WINCH; stty size; while :; do sleep 0.02; done"
    with serving() as (host, _):
        host.order("sh", "-c", shell, folder=str(tmp_path), size=SIZE)
        host.until(lambda: b"31 101\r\n" in host.output)
        host.send(frames.RESIZE, frames.pack_size(frames.Size(17, 63)))
        assert host.wait() == 3
        assert b"17 63\r\n" in host.output


def test_control_c_at_a_terminal_reaches_what_is_in_the_foreground(tmp_path: Path) -> None:
    shell = "trap 'echo interrupted; exit 5' INT; echo begun; while :; do sleep 0.02; done"
    with serving() as (host, _):
        host.order("sh", "-c", shell, folder=str(tmp_path), size=SIZE)
        host.until(lambda: b"begun" in host.output)
        host.send(frames.INPUT, b"\x03")
        assert host.wait() == 5
        assert b"interrupted" in host.output


def test_the_end_of_input_at_a_terminal_is_control_d(tmp_path: Path) -> None:
    with serving() as (host, _):
        host.order("cat", folder=str(tmp_path), size=SIZE)
        host.give(b"line\n")
        assert host.wait() == 0
        assert host.output.count(b"line\r\n") == 2


def test_a_terminal_that_is_cut_off_is_hung_up(tmp_path: Path) -> None:
    shell = "trap 'touch hung-up; exit' HUP; echo begun; while :; do sleep 0.02; done"
    with serving() as (host, _):
        host.order("sh", "-c", shell, folder=str(tmp_path), size=SIZE)
        host.until(lambda: b"begun" in host.output)
        host.sock.close()
        assert wait_until((tmp_path / "hung-up").exists)


def test_a_server_that_left_its_terminal_outlasts_it(tmp_path: Path) -> None:
    work = "touch left; until test -e go; do sleep 0.02; done; echo x; touch done"
    until_left = "until test -e left; do sleep 0.02; done"
    with serving() as (host, guest):
        shell = f"setsid sh -c '{work}' & {until_left}"
        host.order("sh", "-c", shell, folder=str(tmp_path), size=SIZE)
        assert host.wait() == 0
        host.sock.close()
        guest.join()
        (tmp_path / "go").touch()
        assert wait_until((tmp_path / "done").exists)


def test_only_a_terminal_that_programs_know_is_taken_over() -> None:
    def told(terminal: bytes) -> bytes:
        order = Order(argv=[b"x"], folder=b"", environment={b"TERM": terminal}, size=None)
        return environment_of(order)[b"TERM"]

    assert told(b"linux") == b"linux"
    assert told(b"xterm-of-tomorrow") == b"xterm-256color"
    assert told(b"../../linux") == b"xterm-256color"


def test_variables_are_those_of_the_notebook_and_who_the_machine_is(tmp_path: Path) -> None:
    outfit = Outfit(tmp_path)
    outfit.take({"API_KEY": "placeholder", "EMPTY": "", "NO_PROXY": None}, {}, {})
    (tmp_path / "identity.json").write_text('{"branch": "ridge", "index": 2}')
    order = Order(argv=[b"x"], folder=b"", environment={b"MINE": b"1"}, size=None)
    found = environment_of(order, tmp_path, str(tmp_path / "identity.json"))
    assert (found[b"API_KEY"], found[b"EMPTY"], found[b"MINE"]) == (b"placeholder", b"", b"1")
    assert (found[b"BRANCHPOINT_BRANCH"], found[b"BRANCHPOINT_INDEX"]) == (b"ridge", b"2")
    assert found[b"HOME"] == b"/root"
    assert b"NO_PROXY" not in found
    assert found[b"https_proxy"].startswith(b"http://127.0.0.1")


@contextmanager
def waiting(folder: Path) -> Generator[tuple[ExecHost, Serving]]:
    """Both ends of a stream whose command runs for as long as the block lasts."""
    with serving() as (host, guest):
        host.order("sh", "-c", "until test -e over; do sleep 0.02; done", folder=str(folder))
        try:
            yield host, guest
        finally:
            (folder / "over").touch()


def bad(host: ExecHost, guest: Serving) -> str:
    """What the guest says of it, once it has cut the stream off."""
    host.until_over()
    guest.join()
    assert isinstance(guest.error, ExecFrameError)
    return str(guest.error)


def test_more_input_than_there_is_room_for_cuts_the_stream_off(tmp_path: Path) -> None:
    with waiting(tmp_path) as (host, guest):
        # A pipe takes as much as a piece.
        with suppress(BrokenPipeError):
            host.sock.sendall(4 * frames.frame(frames.INPUT, bytes(frames.PIECE_BYTES)))
        assert "more input" in bad(host, guest)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (frames.RUN, b"\0\0000\0true"),
        (frames.RESIZE, b"123"),
        (frames.SIGNAL, b"\xff"),
        (frames.SIGNAL, b""),
        (frames.STATUS, b""),
    ],
)
def test_a_frame_that_means_nothing_cuts_the_stream_off(
    tmp_path: Path, kind: int, body: bytes
) -> None:
    with waiting(tmp_path) as (host, guest):
        host.send(kind, body)
        assert bad(host, guest)


@given(st.binary(max_size=64))
def test_garbage_raises_nothing_but_that_it_is(data: bytes) -> None:
    with serving() as (host, guest):
        host.sock.sendall(data)
        host.sock.shutdown(socket.SHUT_WR)
        guest.join()
        assert guest.error is None or isinstance(guest.error, ExecFrameError)


def test_nothing_is_left_open(tmp_path: Path) -> None:
    ran("true", folder=tmp_path)
    # What is left of earlier tests would go in between.
    gc.collect()
    before = set(Path("/proc/self/fd").iterdir())
    for size in (None, SIZE):
        with serving() as (host, _):
            host.order("cat", folder=str(tmp_path), size=size)
            host.give(b"x\n")
            host.wait()
    ran("no-such-thing", folder=tmp_path)
    assert set(Path("/proc/self/fd").iterdir()) <= before

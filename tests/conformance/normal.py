"""Recordings made comparable: what differs between two runs of one kernel is taken out.

Ids become numbers in order of appearance; dates, addresses, times, process ids, ports and what a
host has become names of themselves. Texts of a stream that follow each other are joined: where the
kernel's timer cut them is chance.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.conformance.recorder import Heard

Channels = dict[str, list[Heard]]

_ID = re.compile(
    r"(?<![0-9a-f])(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|[0-9a-f]{8}-[0-9a-f]{24}(?:_\d+)*)(?![0-9a-f])"
)
_UNSTEADY = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(?:Z|\+00:00)"), "DATE"),
    (re.compile(r"0x[0-9a-f]{6,}"), "ADDRESS"),
    # Rounded up to the next unit it has an exponent.
    (re.compile(r"\b\d+(?:\.\d+)?(?:e\+\d+)? (?:ns|[µμu]s|ms|s)\b"), "TIME"),
    # What %time and %timeit tell of a compiler that took a while.
    (re.compile(r"^(?:Compiler|Parser) +: .*\n|^Compiler time: .*\n", re.MULTILINE), ""),
    (re.compile(r"ipykernel_\d+"), "ipykernel_PID"),
    (re.compile(r"\bTask-\d+"), "Task-N"),
    (re.compile(r"\b1\d{14}\b"), "THREAD"),
    (re.compile(r"^Tip: .*$", re.MULTILINE), "Tip: one of many"),
    # A terminal's echo, which comes in time or not.
    (re.compile(r"\^C(?:\r\n)?"), ""),
)
# Ours says after some seconds that an interrupt has not ended the cell, or that its machine does
# not answer, which depends on how busy a host is.
_IMPATIENT = ("The interrupt has not ended the cell", "The machine has not answered for")
# Replies that are all figures of this host and this moment: there the kinds must agree.
_FIGURES = frozenset({"usage_reply", "connect_reply"})
# A debugger tells of threads and modules as it comes across them.
_DEBUGGERS_EVENTS = frozenset({"initialized", "stopped", "continued", "terminated"})
_UNSTEADY_FIELDS = {
    # It numbers what it tells, threads among it.
    "debug_event": frozenset({"seq", "threadId"}),
    "debug_reply": frozenset(
        {"seq", "request_seq", "id", "threadId", "variablesReference", "stoppedThreads"}
    ),
    # Jedi gives up on a type after 0.4 s.
    "complete_reply": frozenset({"type", "signature"}),
    # Left out while it is 0.
    "usage_reply": frozenset({"host_cpu_percent"}),
}


@dataclass
class _Names:
    """Ids in order of appearance."""

    known: dict[str, str] = field(default_factory=dict[str, str])

    def steady(self, text: str) -> str:
        for pattern, name in _UNSTEADY:
            text = pattern.sub(name, text)
        return _ID.sub(lambda m: self.known.setdefault(m[0], f"ID {len(self.known) + 1}"), text)


def normalise(heard: Sequence[Heard], *, concurrent: bool = False) -> Channels:
    """By channel, what was heard, in order; of concurrent requests, by channel and request."""
    names = _Names()
    found: Channels = {}
    for message in heard:
        if message.type == "stream" and message.content["text"].startswith(_IMPATIENT):
            continue
        if message.type == "debug_event":
            if message.content["event"] not in _DEBUGGERS_EVENTS:
                continue
            message = replace(message, parent="")
        key = f"{message.channel} {message.parent}" if concurrent else message.channel
        _append(found.setdefault(key, []), message)
    # Numbered in one order for both, however the channels were interleaved.
    return {
        key: [_steady(message, names.steady) for message in found[key]] for key in sorted(found)
    }


def _append(messages: list[Heard], message: Heard) -> None:
    last = messages[-1] if messages else None
    if last is None or message.type != "stream" or _stream(last) != _stream(message):
        messages.append(message)
        return
    text = last.content["text"] + message.content["text"]
    messages[-1] = replace(last, content={**last.content, "text": text})


def _stream(message: Heard) -> tuple[str, str, str]:
    return message.type, message.parent, message.content.get("name", "")


def _steady(message: Heard, steady: Callable[[str], str]) -> Heard:
    if "engine" in message.metadata:
        # Ours replies to some cells itself, under an id of its own.
        message = replace(message, metadata={**message.metadata, "engine": "ENGINE"})
    content = _without(message.content, _UNSTEADY_FIELDS.get(message.type, frozenset()))
    if message.type in _FIGURES:
        content = _kinds(content)
    return replace(
        message, content=_walk(content, steady), metadata=_walk(message.metadata, steady)
    )


def _walk(value: Any, steady: Callable[[str], str]) -> Any:
    match value:
        case str():
            return steady(value)
        case list():
            return [_walk(item, steady) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case dict():
            return {steady(str(key)): _walk(item, steady) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _:
            return value


def _kinds(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _kinds(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return type(value).__name__


def _without(value: Any, names: frozenset[str]) -> Any:
    match value:
        case list():
            return [_without(item, names) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case dict():
            return {key: _without(item, names) for key, item in value.items() if key not in names}  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value

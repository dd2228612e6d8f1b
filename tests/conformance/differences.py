"""Where ours is meant to differ from stock ipykernel: why, and how to take that out of ours."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.conformance.normal import Channels
from tests.conformance.recorder import Heard


@dataclass(frozen=True)
class Difference:
    """A wanted difference; `taken_out` makes of what ours says what stock must have said."""

    reason: str
    taken_out: Callable[[Channels], Channels]


def _after_the_end(ours: Channels) -> Channels:
    """The cell failed before the await would have ended by itself, in stock after it."""
    messages = ours["iopub request 1"]
    assert [m.type for m in messages][2:] == ["stream", "error", "status", "stream"]
    begun, last = messages[2], messages[-1]
    text = begun.content["text"] + last.content["text"]
    whole = replace(begun, content={**begun.content, "text": text})
    return {**ours, "iopub request 1": [*messages[:2], whole, *messages[3:-1]]}


def _without_branch(content: dict[str, Any]) -> dict[str, Any]:
    shown = content["data"]["text/plain"].replace("'branch', ", "")
    return {**content, "data": {"text/plain": shown}}


def _without_machine(content: dict[str, Any]) -> dict[str, Any]:
    banner, line, end = content["banner"].rsplit("\n", 2)
    assert line.startswith("in a microVM under ")
    assert not end
    return {**content, "banner": f"{banner}\n"}


def _in_contents(change: Callable[[dict[str, Any]], dict[str, Any]], *types: str) -> Any:
    def changed(message: Heard) -> Heard:
        return (
            replace(message, content=change(message.content)) if message.type in types else message
        )

    def taken_out(ours: Channels) -> Channels:
        return {key: [changed(message) for message in messages] for key, messages in ours.items()}

    return taken_out


_AWAIT = Difference(
    "stock sleeps on in an await after an interrupt (ipykernel#881); ours wakes it (T12)",
    _after_the_end,
)
_BRANCH = Difference(
    "`branch` tells code which branch it runs in",
    _in_contents(_without_branch, "execute_result"),
)
DIFFERENCES = {
    "an await interrupted": _AWAIT,
    "awaits gathered and interrupted": _AWAIT,
    "names in the namespace": _BRANCH,
    "kernel info": Difference(
        "the banner says what the kernel runs in",
        _in_contents(_without_machine, "kernel_info_reply"),
    ),
}

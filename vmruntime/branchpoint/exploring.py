"""Try every option from this very moment: each in a fork, the results brought home."""

import base64
import html
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NoReturn, TypeVar, overload

from branchpoint.calls import Woken, ask
from branchpoint.errors import BranchpointError
from branchpoint.interruption import is_inside_run
from branchpoint.operations import woken_instead

Option = TypeVar("Option")
Value = TypeVar("Value")

_CELL_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Generic[Option, Value]):
    """What came of one option.

    `error` is what the function raised, or why there is no result; None if all went well. `output`
    is what it printed. Times in milliseconds, memory in bytes: `own_bytes` is its machine's alone,
    `shared_bytes` mapped from what others use too.
    """

    option: Option
    error: BaseException | None
    output: str
    branch: str
    awake_ms: float
    run_ms: float
    own_bytes: int
    shared_bytes: int
    returned: Value | None = field(repr=False)

    @property
    def value(self) -> Value:
        """What the function returned. Raises `error` if there is one."""
        if self.error is not None:
            raise self.error
        return self.returned  # pyright: ignore[reportReturnType]


class Results(Sequence[Result[Option, Value]]):
    """The results in the order of the options, and how long it took in milliseconds."""

    def __init__(self, results: Iterable[Result[Option, Value]], total_ms: float) -> None:
        self._results = tuple(results)
        self.total_ms = total_ms

    @property
    def values(self) -> list[Value]:
        """What the function returned for each option. Raises the first error there is."""
        return [result.value for result in self]

    def __len__(self) -> int:
        return len(self._results)

    @overload
    def __getitem__(self, index: int) -> Result[Option, Value]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Result[Option, Value]]: ...
    def __getitem__(
        self, index: int | slice
    ) -> Result[Option, Value] | Sequence[Result[Option, Value]]:
        return self._results[index]

    def __iter__(self) -> Iterator[Result[Option, Value]]:
        return iter(self._results)

    def __repr__(self) -> str:
        lines = [" | ".join(_cells(result)) for result in self]
        return "\n".join([f"{len(self)} results in {self.total_ms / 1000:.2f} s", *lines])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
        rows = (
            "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(result)) for result in self
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        total = f"{len(self)} results in {self.total_ms / 1000:.2f} s"
        return (
            f"<table><caption>{total}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )


_COLUMNS = ("option", "value", "awake", "run", "own memory")


def explore(
    function: Callable[[Option], Value], options: Iterable[Option], *, at_once: int | None = None
) -> Results[Option, Value]:
    """Call `function` with each option, each in a fork of this very moment, several at a time.

    What it returns comes home pickled, what it raises as well; the forks end. Nothing of what it
    does to memory, files or processes is seen here. At most `at_once` forks live at a time; None
    leaves that to the host's memory and processors. Raises BranchpointError if no fork can be made,
    never for a single option: that is its result's `error`. An interrupt ends it, and the forks.
    """
    chosen = list(options)
    if not chosen:
        return Results((), 0.0)
    if is_inside_run():
        raise BranchpointError(
            "explore cannot be called inside once: every fork would stop and wait for this one",
            hint="explore first, and give `once` what came of it",
        )
    answer = ask({"do": "explore", "count": len(chosen), "at_once": at_once})
    if isinstance(answer, Woken):
        if answer.reason != "fork" or not 1 <= answer.index <= len(chosen):
            raise woken_instead(answer, "explore")
        _send_home(_payload(function, chosen[answer.index - 1]))
    facts = answer.value
    pairs = zip(chosen, facts["results"], strict=True)
    return Results((_result(option, fact) for option, fact in pairs), facts["total_ms"])


def _send_home(payload: bytes) -> NoReturn:
    """The last thing a fork does; the host ends it."""
    try:
        _send(payload)
    except BranchpointError as error:
        _send(pickle.dumps((None, BranchpointError(f"the result did not get home: {error}"), "")))
    while True:
        time.sleep(3600)


def _send(payload: bytes) -> None:
    ask({"do": "result", "payload": base64.b64encode(payload).decode()})


def _payload(function: Callable[[Any], Any], option: object) -> bytes:
    """What came of the option, pickled: `(value, None, "")` or `(None, error, traceback)`."""
    try:
        value = function(option)
    except BaseException as error:
        return _pickled_error(error)
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    try:
        return pickle.dumps((value, None, ""), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        kind = type(value).__name__
        refusal = BranchpointError(
            f"the result, a {kind}, cannot be brought home: {type(error).__name__}: {error}",
            hint="return what can be pickled, or write it to a file and return its content",
        )
        return pickle.dumps((None, refusal, ""), pickle.HIGHEST_PROTOCOL)


def _pickled_error(error: BaseException) -> bytes:
    # Our own frames say nothing about what went wrong.
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    text = "".join(traceback.format_exception(type(error), error, frames))
    try:
        payload = pickle.dumps((None, error, text), pickle.HIGHEST_PROTOCOL)
        # Some can be pickled and not taken out again.
        pickle.loads(payload)
    except Exception:
        told = BranchpointError(f"{type(error).__name__}: {error}")
        return pickle.dumps((None, told, text), pickle.HIGHEST_PROTOCOL)
    return payload


def _result(option: Option, fact: dict[str, Any]) -> Result[Option, Any]:
    returned, error = _unpacked(fact["payload"], fact["failure"])
    return Result(
        option=option,
        error=error,
        output=fact["output"],
        branch=fact["branch"],
        awake_ms=fact["awake_ms"],
        run_ms=fact["run_ms"],
        own_bytes=fact["own_bytes"],
        shared_bytes=fact["shared_bytes"],
        returned=returned,
    )


def _unpacked(payload: str | None, failure: str) -> tuple[Any, BaseException | None]:
    if payload is None:
        return None, BranchpointError(failure)
    try:
        returned, error, text = pickle.loads(base64.b64decode(payload))
    except Exception as error:
        why = f"the result cannot be taken out of what came home: {type(error).__name__}: {error}"
        return None, BranchpointError(why)
    if error is not None and text:
        error.add_note(f"In the fork:\n{text}")
    return returned, error


def _cells(result: Result[Any, Any]) -> tuple[str, ...]:
    """What a table says of a result, column by column."""
    failed = result.error is not None
    came = f"{type(result.error).__name__}: {result.error}" if failed else _repr(result.returned)
    return (
        _repr(result.option),
        came if len(came) <= _CELL_CHARACTERS else came[:_CELL_CHARACTERS] + "…",
        f"{result.awake_ms / 1000:.2f} s",
        f"{result.run_ms / 1000:.2f} s",
        f"{result.own_bytes / 1e6:.0f} MB",
    )


def _repr(value: object) -> str:
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"
    return text if len(text) <= _CELL_CHARACTERS else text[:_CELL_CHARACTERS] + "…"

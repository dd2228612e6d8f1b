"""Where a command writes: to a terminal, a file or a pipe, in whatever characters it can take.

What came of a command is shown by `show`: as JSON for scripts, in lines for people.
"""

import argparse
import codecs
import io
import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, TextIO, cast

from rich.console import Console

from branchpoint_kernel.rendering import Line, as_text
from branchpoint_vmruntime.errors import HostError


class NobodyReadsError(Exception):
    """Whoever read what a command writes has gone, as `head` does once it has enough."""


class UnwritableError(HostError):
    """What a command writes cannot be written, as to a file on a disk that is full."""


class _Output(Console):
    def on_broken_pipe(self) -> None:
        raise NobodyReadsError

    def print(self, *objects: Any, **how: Any) -> None:
        try:
            super().print(*objects, **how)
        except OSError as error:
            raise UnwritableError(
                f"what came of it cannot be written to standard output: {error.strerror}",
                hint="what was asked for may be done all the same: `branchpoint ls` shows it",
            ) from error


class _Errors(Console):
    """Nothing is given up because nobody can be told how it goes."""

    def on_broken_pipe(self) -> None:
        pass

    def print(self, *objects: Any, **how: Any) -> None:
        with suppress(OSError):
            super().print(*objects, **how)


def standard_output() -> Console:
    """The console of standard output."""
    _take_what_comes(sys.stdout)
    return _Output(highlight=False, soft_wrap=not os.isatty(1))


def standard_error() -> Console:
    """The console of standard error."""
    _take_what_comes(sys.stderr)
    return _Errors(stderr=True, highlight=False, soft_wrap=True)


def show(result: object, options: argparse.Namespace, console: Console, *lines: Line) -> None:
    """What came of a command, as JSON if `options.json` says so, else in lines."""
    if options.json:
        as_json(result, console)
    else:
        say(console, lines)


def say(console: Console, lines: Sequence[Line]) -> None:
    """Lines for people; nothing in them is taken for markup."""
    if lines:
        console.print(as_text(lines), markup=False, soft_wrap=True)


def as_json(result: object, console: Console) -> None:
    """A result as JSON: on one line unless somebody watches."""
    plain = _plain(result)
    # Not `console.is_terminal`: to want colours, as CIs do, makes no terminal of what scripts read.
    if console.file.isatty():
        console.print_json(data=plain, ensure_ascii=True)
    else:
        console.out(json.dumps(plain))


def let_go() -> None:
    """Write what waits to be written to standard output, or give it up if nobody reads it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # Python would try once more as it ends, and complain.
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)
        except AttributeError:
            # It was closed before this process began.
            continue


def _take_what_comes(stream: TextIO | None) -> None:
    """Never fail over a character.

    A file's name that is not UTF-8 comes out as the bytes it is; where there is no UTF-8, what
    cannot be written is a question mark.
    """
    if isinstance(stream, io.TextIOWrapper):
        in_utf8 = codecs.lookup(stream.encoding).name == "utf-8"
        stream.reconfigure(errors="surrogateescape" if in_utf8 else "replace")


def _plain(value: Any) -> Any:
    """A value in JSON's own kinds."""
    match value:
        case Enum():
            return value.value
        case datetime():
            return value.isoformat()
        case Path():
            return str(value)
        case dict():
            there = cast("dict[str, Any]", value)
            return {str(name): _plain(each) for name, each in there.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(each) for each in cast("Iterable[Any]", value)]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _plain(asdict(value))
        case _:
            return value

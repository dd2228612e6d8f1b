"""Programs of ours begin soundly, whatever started them: streams that are closed, a locale of C."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_TELLS = """
import os, sys
from branchpoint_vmruntime.entering import enter
enter()
made = os.pipe()
print(sys.stdin.read(), end="")
print(end="", file=sys.stderr, flush=True)
print(ascii((sys.argv[1:], sys.getfilesystemencoding(), min(made) > 2)))
"""
_UTF8 = ("PYTHONUTF8", "PYTHONIOENCODING", "LANG", "LC_ALL", "LC_CTYPE")


def environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _UTF8} | more


def told(program: Path, *options: str, **more: str) -> str:
    command = [sys.executable, *options, str(program), "gr\u00f6\u00dfer \u52a0\u8f7d"]
    surroundings = environment(**more)
    done = subprocess.run(
        command, env=surroundings, stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that tells what it was given."""
    written = tmp_path / "program.py"
    written.write_text(_TELLS)
    return written


@pytest.mark.parametrize("options", [(), ("-X", "utf8=0")])
@pytest.mark.parametrize("locale", ["C", "POSIX", "C.UTF-8", "nowhere"])
def test_whatever_the_locale_arguments_are_text(
    program: Path, locale: str, options: tuple[str, ...]
) -> None:
    there = told(program, *options, LC_ALL=locale, PYTHONCOERCECLOCALE="0")
    assert there == ascii((["gr\u00f6\u00dfer \u52a0\u8f7d"], "utf-8", True))


def test_a_standard_stream_that_was_closed_is_not_taken_by_what_is_opened_next(
    program: Path,
) -> None:
    command = ["sh", "-c", 'exec "$0" "$1" <&- 2>&-', sys.executable, str(program)]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, check=True)
    assert done.stdout.decode().strip() == "([], 'utf-8', True)"

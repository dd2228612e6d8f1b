"""Where our magics are in a cell: its text cut into code for the guest and commands. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from tokenize import DEDENT, INDENT, TokenError, TokenInfo

from IPython.core.inputtransformer2 import ESCAPE_SINGLES, make_tokens_by_line

from branchpoint_kernel.commands import Command, Explain
from branchpoint_kernel.grammar import parse
from branchpoint_kernel.manual import MAGICS

_NAMES = "|".join(MAGICS)
_MAGIC_LINE = re.compile(rf"%({_NAMES})(?![\w.])(.*)", re.DOTALL)
_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
_QUESTION = re.compile(
    rf"\s*(?:\?{{1,2}}\s*%{{1,2}}({_NAMES})|%{{1,2}}({_NAMES})\s*\?{{1,2}})\s*(?:#.*)?"
)
_ANY_MAGIC = re.compile(r"^[^\S\n]*%{1,2}(\w+)", re.MULTILINE)
# Close enough to be a slip of the finger: one letter of five, not another word.
_CLOSE = 0.75


@dataclass(frozen=True, slots=True)
class Code:
    """Lines for the guest."""

    text: str


Segment = Code | Command


def mentions_a_magic(content: bytes) -> bool:
    """Whether a look at the code is worth it; says no in a blink for a cell of many megabytes."""
    return b"%" in content or b"?" in content


def split(code: str, language: str = "python") -> list[Segment] | None:
    r"""The segments of a cell that holds a command of ours; None if it is the guest's alone.

    UsageError if a command cannot be understood: then nothing of the cell has been run. In another
    language than Python only a cell of nothing but commands is ours: what else begins with a
    percent sign there, and where its statements end, is not for us to say.

    >>> split("x = 1\n%checkpoint a\n")
    [Code(text='x = 1\n'), Checkpoint(label='a', note='', pinned=False)]
    >>> split("x=1\n%checkpoint a\n", "bash")
    """
    if question := _QUESTION.fullmatch(code):
        return [Explain(magic=question[1] or question[2], paged=True)]
    if cell_magic := _CELL_MAGIC.match(code):
        return _split_cell_magic(cell_magic[1], code)
    if not re.search(rf"^%({_NAMES})\b", code, re.MULTILINE):
        return None
    if language != "python":
        return _commands_alone(code)
    segments = list(_segments(code.splitlines(keepends=True)))
    return None if all(isinstance(segment, Code) for segment in segments) else segments


def near_miss(code: str) -> str | None:
    """The magic of ours that one in the code is probably a slip of, as typed and as it should be.

    >>> near_miss("%chekpoint loaded")
    'checkpoint'
    """
    for match in _ANY_MAGIC.finditer(code):
        if match[1] not in MAGICS and (close := get_close_matches(match[1], MAGICS, 1, _CLOSE)):
            return close[0]
    return None


def _split_cell_magic(name: str, code: str) -> list[Segment] | None:
    if name not in MAGICS or not MAGICS[name].cell:
        return None
    first, _, body = code.lstrip().partition("\n")
    question = first.rstrip().endswith("?") and not body.strip()
    if question:
        return [Explain(magic=name, paged=True)]
    return [parse(name, first[len(name) + 2 :], body)]


def _commands_alone(code: str) -> list[Segment] | None:
    lines = [line.rstrip("\n") for line in code.splitlines(keepends=True) if line.strip()]
    found = [match for line in lines if (match := _MAGIC_LINE.fullmatch(line))]
    if len(found) < len(lines):
        return None
    return [_command(match[1], match[2]) for match in found]


def _segments(lines: list[str]) -> Iterator[Segment]:
    """Cut at our magics.

    Other escaped lines are blanked for the tokenizer, which cannot read `!echo "it's`; a line cut
    or blanked can change how those after it are read, hence one at a time.
    """
    start = 0
    reading = list(lines)
    while (at := _next_escape(reading, start)) is not None:
        end = at + 1
        while end < len(lines) and lines[end - 1].endswith("\\\n"):
            end += 1
        text = "".join(lines[at:end]).replace("\\\n", " ")
        if (magic := _MAGIC_LINE.match(text)) is None:
            indent = re.match(r"\s*", lines[at])
            reading[at:end] = [f"{indent[0] if indent else ''}pass\n"] + ["\n"] * (end - at - 1)
            continue
        if "".join(lines[start:at]).strip():
            yield Code("".join(lines[start:at]))
        yield _command(magic[1], magic[2])
        start = end
    if "".join(lines[start:]).strip():
        yield Code("".join(lines[start:]))


def _command(name: str, rest: str) -> Command:
    if rest.strip() in ("?", "??"):
        return Explain(magic=name, paged=True)
    return parse(name, rest)


def _next_escape(lines: list[str], start: int) -> int | None:
    """The first line from `start` that begins a statement with an escape character."""
    rest = lines[start:]
    try:
        statements: list[list[TokenInfo]] = make_tokens_by_line(rest)
    except (TokenError, SyntaxError):
        # Indented as no Python can be: the guest will say so, better than we could.
        return None
    for tokens in statements:
        first = next((token for token in tokens if token.type not in (INDENT, DEDENT)), None)
        if first is not None and first.string and first.string in ESCAPE_SINGLES:
            return start + first.start[0] - 1
    return None

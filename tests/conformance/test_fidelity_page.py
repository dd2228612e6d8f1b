"""docs/fidelity.md speaks of every case and every point, and names only tests that there are."""

import ast
import re
from pathlib import Path

from tests.conformance.dialogues import SNIPPETS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "fidelity.md").read_text()
# Found not to be a kernel's to get wrong.
LEFT_OUT = {7, 10, 16, 22, 24, 28, 30, 32, 36, 38, 45, 49, 50, 55, 58, 63, 66, 70, 72, 76, 81}
CASES = [number for number in range(1, 82 + 1) if number not in LEFT_OUT]
POINTS = range(1, 24 + 1)


def rows() -> list[str]:
    """The first column of every table."""
    return re.findall(r"^\| (\S+)", PAGE, re.MULTILINE)


def defined(path: Path) -> set[str]:
    """The names of the functions of a module."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)}


def test_every_case_and_every_point_has_one_row() -> None:
    wanted = [*(f"T{number:02}" for number in CASES), *map(str, POINTS)]
    assert [row for row in rows() if row not in ("case", "point", "---")] == wanted


def test_every_test_that_is_named_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > len(CASES)
    missing = [(path, name) for path, name in named if name not in defined(ROOT / path)]
    assert missing == []


def test_every_file_that_is_named_is_there() -> None:
    named = re.findall(r"`((?:tests|vmruntime)/[^`:]+)`", PAGE)
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_snippet_that_is_named_is_there() -> None:
    lists = re.findall(r"snippets? ((?:`[^`]+`(?:, )?)+)", PAGE)
    named = [name for found in lists for name in re.findall(r"`([^`]+)`", found)]
    names = [name for name in named if "::" not in name]
    assert len(names) > 20
    assert [name for name in names if name not in SNIPPETS] == []

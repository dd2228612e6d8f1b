"""How one file differs between two machines, line by line. Pure."""

from collections.abc import Iterator
from difflib import unified_diff

from branchpoint_kernel.insides import FileContent

LINES_SHOWN = 400


def text_diff(path: str, before: FileContent, after: FileContent) -> list[str]:
    """A unified diff, or a line that says why there is none."""
    if said := _no_text(path, before, after):
        return [said]
    if before.content == after.content and before.whole and after.whole:
        return [f"{path} is the same in both"]
    lines = list(_unified(path, before, after))
    if len(lines) > LINES_SHOWN:
        lines[LINES_SHOWN:] = [f"… and {len(lines) - LINES_SHOWN} lines more"]
    if not before.whole or not after.whole:
        shorter = min(len(before.content), len(after.content)) or max(
            len(before.content), len(after.content)
        )
        lines.append(f"… only the first {shorter} bytes were compared")
    return lines


def _no_text(path: str, before: FileContent, after: FileContent) -> str:
    if not before.kind and not after.kind:
        return f"{path} is in neither"
    for content in (before, after):
        if content.kind not in ("file", ""):
            return f"{path} is no file but a {content.kind}"
    if _is_binary(before.content) or _is_binary(after.content):
        same = before.whole and after.whole and before.content == after.content
        verdict = "the same in both" if same else f"{before.size} bytes, then {after.size}"
        return f"{path} is binary: {verdict}"
    return ""


def _is_binary(content: bytes) -> bool:
    return b"\0" in content


def _unified(path: str, before: FileContent, after: FileContent) -> Iterator[str]:
    first, second = (_lines(content.content) for content in (before, after))
    names = [path if content.kind else "/dev/null" for content in (before, after)]
    yield from (
        line.rstrip("\n") for line in unified_diff(first, second, names[0], names[1], lineterm="")
    )


def _lines(content: bytes) -> list[str]:
    return content.decode(errors="backslashreplace").split("\n")

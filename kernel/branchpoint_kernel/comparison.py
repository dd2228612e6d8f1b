"""What differs between the insides of two machines. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from branchpoint_kernel.insides import FileFacts, Insides, Survey, Variable

# What programs keep for themselves and make again: it differs between any two machines.
_CACHE = re.compile(
    r"(?:^|/)__pycache__(?:/|$)|\.pyc$|"
    r"^/(?:root|home/[^/]+)/(?:\.cache|\.ipython/profile_default|\.[a-z]+_history)(?:/|$)|"
    r"^/var/(?:cache|log|lib/apt/lists)(?:/|$)|"
    r"^/tmp/ipykernel_"
)


class Change(Enum):
    """How something differs, from before to after; the value is its mark."""

    ADDED = "+"
    CHANGED = "~"
    REMOVED = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A path that differs. Sizes are in bytes, None where there is no file or it is the image's."""

    path: str
    change: Change
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableChange:
    """A variable that differs."""

    name: str
    change: Change
    before: Variable | None
    after: Variable | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageChange:
    """A package that differs; versions are None where it is not installed."""

    kind: str
    name: str
    change: Change
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All that differs; None where one of the two could not tell.

    `caches` is how many files besides differ that programs keep for themselves. Of the variables
    that do not differ, `same` are known to be equal, the others only look it.
    """

    files: tuple[FileChange, ...] | None
    caches: int
    left_out: int
    variables: tuple[VariableChange, ...] | None
    same: int
    look_same: int
    packages: tuple[PackageChange, ...] | None
    notes: tuple[str, ...]


def compare(before: Insides, after: Insides) -> Comparison:
    """From one machine to another."""
    files, caches, packages, left_out = None, 0, None, 0
    if before.survey is not None and after.survey is not None:
        every = compare_files(before.survey, after.survey)
        files = tuple(change for change in every if not is_cache(change.path))
        caches = len(every) - len(files)
        left_out = before.survey.left_out + after.survey.left_out
        packages = tuple(_package_changes(before.survey.packages, after.survey.packages))
    variables, same, look_same = None, 0, 0
    if before.variables is not None and after.variables is not None:
        variables = tuple(_variable_changes(before.variables, after.variables))
        differ = {change.name for change in variables}
        alike = [each for name, each in after.variables.items() if name not in differ]
        same = sum(each.exact and before.variables[each.name].exact for each in alike)
        look_same = len(alike) - same
    return Comparison(
        files=files,
        caches=caches,
        left_out=left_out,
        variables=variables,
        same=same,
        look_same=look_same,
        packages=packages,
        notes=tuple(dict.fromkeys((*before.notes, *after.notes))),
    )


def is_cache(path: str) -> bool:
    """Whether a path is what programs keep for themselves.

    >>> is_cache("/root/a/__pycache__/m.pyc"), is_cache("/root/cache.py")
    (True, False)
    """
    return _CACHE.search(path) is not None


def compare_files(before: Survey, after: Survey) -> list[FileChange]:
    """The paths that differ, in order; a folder only if nothing in it is named."""
    changes: list[FileChange] = []
    for path in sorted(before.files.keys() | after.files.keys()):
        first, second = before.files.get(path), after.files.get(path)
        there, here = _is_there(before, path, second), _is_there(after, path, first)
        if not there and not here:
            continue
        if there and here and first is not None and second is not None and _same(first, second):
            continue
        change = Change.CHANGED if there and here else Change.ADDED if here else Change.REMOVED
        sizes = _size(first) if there else None, _size(second) if here else None
        changes.append(FileChange(path=path, change=change, before=sizes[0], after=sizes[1]))
    folders = {
        path
        for path in before.files.keys() | after.files.keys()
        if "dir" in (_kind(before, path), _kind(after, path))
    }
    named = {parent for change in changes for parent in _parents(change.path)}
    return [each for each in changes if each.path not in folders or each.path not in named]


def _is_there(survey: Survey, path: str, other: FileFacts | None) -> bool:
    """Whether a machine has the path; `other` is what another machine's survey says of it."""
    facts = survey.files.get(path)
    if facts is not None:
        return facts.kind != "removed"
    if other is None or not other.in_image:
        return False
    above = (survey.files.get(parent) for parent in _parents(path))
    return all(parent is None or parent.kind == "dir" for parent in above)


def _same(before: FileFacts, after: FileFacts) -> bool:
    if (before.kind, before.mode) != (after.kind, after.mode):
        return False
    if before.kind == "dir":
        return True
    if before.digest and after.digest:
        return before.digest == after.digest
    return (before.size, before.mtime_ns) == (after.size, after.mtime_ns)


def _size(facts: FileFacts | None) -> int | None:
    return facts.size if facts is not None and facts.kind == "file" else None


def _kind(survey: Survey, path: str) -> str:
    facts = survey.files.get(path)
    return "" if facts is None else facts.kind


def _parents(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _variable_changes(
    before: Mapping[str, Variable], after: Mapping[str, Variable]
) -> Iterator[VariableChange]:
    for name in sorted(before.keys() | after.keys()):
        first, second = before.get(name), after.get(name)
        if first is None or second is None:
            change = Change.ADDED if first is None else Change.REMOVED
        elif _is_alike(first, second):
            continue
        else:
            change = Change.CHANGED
        yield VariableChange(name=name, change=change, before=first, after=second)


def _is_alike(before: Variable, after: Variable) -> bool:
    if (before.type, before.digest) != (after.type, after.digest):
        return False
    return (before.exact and after.exact) or before.size == after.size


def _package_changes(
    before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]
) -> Iterator[PackageChange]:
    for kind in sorted(before.keys() | after.keys()):
        old, new = before.get(kind, {}), after.get(kind, {})
        for name in sorted(old.keys() | new.keys()):
            first, second = old.get(name), new.get(name)
            if first == second:
                continue
            change = Change.CHANGED
            if first is None or second is None:
                change = Change.ADDED if first is None else Change.REMOVED
            yield PackageChange(kind=kind, name=name, change=change, before=first, after=second)

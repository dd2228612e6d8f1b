"""What checkpoints and branches may be called, and which one a name means. Pure."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches

from branchpoint_vmruntime.errors import NameTakenError, UnknownNameError, UsageError
from branchpoint_vmruntime.lineage import BranchName, Checkpoint

MAX_NAME_LENGTH = 64
MIN_PREFIX_LENGTH = 4
# Views of sessions with thousands of checkpoints carry the notes of all of them.
MAX_NOTE_LENGTH = 4000
# What the machine is called in which a session's packages are baked: what may leave a machine, and
# what its placeholders are worth, goes by the branch's name.
BAKED = BranchName("image")
RESERVED_BRANCH_NAMES = {
    "all": "it stands for every branch",
    BAKED: "the machine that `%image add` installs in is called that",
}
_SHOWN_NAMES = 12
_ASIDE = re.compile(r"~[1-9][0-9]*$")
_MARKS_ALLOWED = "._-"


def check_label(text: str) -> str:
    """The label as it is kept (in Unicode's composed form); UsageError if it cannot be one.

    >>> check_label("nach-dem-Säubern")
    'nach-dem-Säubern'
    """
    return _checked("a label", text)


def check_note(text: str) -> str:
    """The note as it is kept: any text that is not too long, as an UsageError says.

    >>> check_note("ohne die Zeilen von 2019")
    'ohne die Zeilen von 2019'
    """
    if len(text) > MAX_NOTE_LENGTH:
        raise UsageError(
            f"a note has at most {MAX_NOTE_LENGTH} characters, not {len(text)}: {text[:40]!r}…",
            hint="put what is longer into the notebook, and its name into the note",
        )
    # Half a character, as JSON may hold it, cannot be stored.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def check_branch_name(text: str) -> BranchName:
    """The branch name as it is kept; UsageError if it cannot be one.

    >>> check_branch_name("forest")
    'forest'
    """
    name = _checked("a branch name", text)
    if why := RESERVED_BRANCH_NAMES.get(name):
        raise UsageError(f"{name!r} cannot be a branch name: {why}")
    return BranchName(name)


def next_label(prefix: str, taken: Collection[str]) -> str:
    """The next of the numbered names; a number once used is not used again.

    >>> next_label("cp", {"cp-1", "cp-4", "loaded"})
    'cp-5'
    """
    numbered = re.compile(re.escape(prefix) + r"-([1-9][0-9]{0,8})")
    used = [int(match[1]) for name in taken if (match := numbered.fullmatch(name))]
    return f"{prefix}-{max(used, default=0) + 1}"


def branch_names(
    count: int, requested: Sequence[str], taken: Iterable[str], *, parent: str = "main"
) -> tuple[BranchName, ...]:
    """The names of `count` new branches: those asked for, or numbered after the parent.

    >>> branch_names(2, (), ["main"])
    ('main-1', 'main-2')
    """
    if count < 1:
        raise UsageError(f"{count} forks cannot be made", hint="ask for at least one: %fork 1")
    names = set(taken)
    if requested:
        return _requested_names(count, requested, names)
    made: list[BranchName] = []
    while len(made) < count:
        made.append(_numbered_branch(parent, names))
        names.add(made[-1])
    return tuple(made)


def resolve(name: str, checkpoints: Sequence[Checkpoint]) -> Checkpoint:
    """The checkpoint a name means, of those given oldest first.

    That is the newest that bears it as its label, or else the only one whose id begins with it.
    """
    label = unicodedata.normalize("NFC", name)
    for checkpoint in reversed(checkpoints):
        if label and checkpoint.label == label:
            return checkpoint
    found = [each for each in checkpoints if each.id == name]
    if not found and len(name) >= MIN_PREFIX_LENGTH:
        found = [each for each in checkpoints if each.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{name!r} could be any of {len(found)} checkpoints: {_listed(map(_shown, found))}",
            hint="give more of the id, or the label",
        )
    raise _unknown(name, checkpoints)


def set_aside(name: str, taken: Collection[str]) -> BranchName:
    """What an earlier kernel's branch is called from now on, so that its name is free again.

    >>> set_aside("ridge", {"ridge", "ridge~1"})
    'ridge~2'
    """
    number = 1
    while f"{name}~{number}" in taken:
        number += 1
    return BranchName(f"{name}~{number}")


def is_set_aside(name: str) -> bool:
    """Whether a branch's name is one that `set_aside` gave.

    >>> is_set_aside("ridge~2"), is_set_aside("ridge")
    (True, False)
    """
    return _ASIDE.search(name) is not None


def without_number(name: str) -> BranchName:
    """What a branch was called before its name was set aside.

    >>> without_number("ridge~2"), without_number("ridge")
    ('ridge', 'ridge')
    """
    return BranchName(_ASIDE.sub("", name))


def _checked(kind: str, text: str) -> str:
    name = unicodedata.normalize("NFC", text)
    if not name:
        raise UsageError(f"{kind} cannot be empty")
    if name.startswith("-"):
        raise UsageError(f"{kind} cannot begin with '-': {name!r} looks like an option")
    if bad := next((c for c in name if not _allowed(c)), ""):
        shown = bad.isprintable() or bad.isspace()
        what = repr(bad) if shown else "a character that cannot be shown"
        raise UsageError(
            f"{kind} cannot contain {what}: {name!r}",
            hint="letters of any alphabet, digits, '-', '_' and '.' are fine",
        )
    if len(name) > MAX_NAME_LENGTH:
        raise UsageError(f"{kind} has at most {MAX_NAME_LENGTH} characters, not {len(name)}")
    return name


def _allowed(character: str) -> bool:
    """Whether a name may have it: a letter, a mark on a letter, a number, or one of `._-`."""
    return unicodedata.category(character)[0] in "LMN" or character in _MARKS_ALLOWED


def _requested_names(
    count: int, requested: Sequence[str], taken: Collection[str]
) -> tuple[BranchName, ...]:
    names = tuple(check_branch_name(name) for name in requested)
    if len(names) != count:
        raise UsageError(
            f"{count} forks need {count} names, not {len(names)}: {', '.join(names)}",
            hint=f"ask for %fork {len(names)}, or give {count} names",
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"a name is given twice: {', '.join(twice)}")
    if there := [name for name in names if name in taken]:
        raise NameTakenError(
            f"there is already a branch of that name: {', '.join(there)}",
            hint=f"`%drop {' '.join(there)}` gives up what is there; or choose other names",
        )
    return names


def _numbered_branch(parent: str, taken: Collection[str]) -> BranchName:
    name = next_label(parent, taken)
    if len(name) <= MAX_NAME_LENGTH:
        return BranchName(name)
    # Forks of forks of forks add a number each; the oldest part of the name tells the least.
    spare = len(name) - MAX_NAME_LENGTH
    return BranchName(next_label(parent[spare:].lstrip("-") or "fork", taken))


def _unknown(name: str, checkpoints: Sequence[Checkpoint]) -> UnknownNameError:
    labels = [each.label for each in checkpoints if each.label]
    near = get_close_matches(name, labels, n=1)
    hint = "take one with %checkpoint" if not checkpoints else "%checkpoints lists them all"
    if near:
        hint = f"did you mean {near[0]!r}?"
    elif 0 < len(name) < MIN_PREFIX_LENGTH and any(
        each.id.startswith(name) for each in checkpoints
    ):
        hint = f"to go by the id, give at least {MIN_PREFIX_LENGTH} characters of it"
    newest_first = dict.fromkeys(_shown(each) for each in reversed(checkpoints))
    shown = tuple(newest_first)[:_SHOWN_NAMES]
    if len(newest_first) > len(shown):
        shown = (*shown, f"and {len(newest_first) - len(shown)} more")
    return UnknownNameError("checkpoint", name, shown, hint=hint)


def _shown(checkpoint: Checkpoint) -> str:
    return checkpoint.label or checkpoint.id


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    rest = f" and {len(every) - _SHOWN_NAMES} more" if len(every) > _SHOWN_NAMES else ""
    return ", ".join(every[:_SHOWN_NAMES]) + rest

"""From the text of one magic to a command; every refusal says what to type instead. Pure."""

from collections.abc import Callable
from types import MappingProxyType

from branchpoint_kernel.commands import (
    Annotate,
    AutoCheckpoint,
    Branches,
    Checkpoint,
    Checkpoints,
    Command,
    Diff,
    Drop,
    Explain,
    Fork,
    Keep,
    Pause,
    Resume,
    Rollback,
    RunIn,
    ShowLineage,
    Switch,
    Undo,
)
from branchpoint_kernel.image_grammar import IMAGE_READERS
from branchpoint_kernel.manual import MAGICS
from branchpoint_kernel.outside_grammar import OUTSIDE_READERS
from branchpoint_kernel.words import Words, check_name, comma_list, take_apart
from branchpoint_vmruntime.session import MAX_FORKS

ALL = "all"
KEEP_QUEUE = "--keep-queue"
# Far more cells than any notebook has, and no number that is slow to read.
_COUNT_DIGITS = 7


def parse(name: str, line: str, body: str = "") -> Command:
    """The command of a magic, from its bare name, the rest of its line, and the cell below it.

    >>> parse("rollback", "loaded --no-safety  # back to the data")
    Rollback(target='loaded', safety=False, preview=False, keep_queue=False)
    """
    magic = MAGICS[name]
    words = take_apart(magic, line)
    if "--help" in words.flags:
        return Explain(magic=name, paged=False)
    return _READERS[name](words, body)


def _is_count(text: str) -> bool:
    return text.isdecimal() and len(text) < _COUNT_DIGITS and int(text) > 0


def _checkpoint(words: Words, _body: str) -> Command:
    words.at_most(1)
    label = words.plain[0] if words.plain else None
    note, pinned = words.flags.get("--note", ""), "--pin" in words.flags
    return Checkpoint(label=label, note=note, pinned=pinned)


def _annotate(words: Words, _body: str) -> Command:
    if not words.plain:
        raise words.refuse("%annotate needs the label of a checkpoint, or the start of its id")
    words.at_most(1)
    label, note = words.flags.get("--label"), words.flags.get("--note")
    if label is None and note is None:
        raise words.refuse("%annotate needs a new --label, a --note, or both")
    return Annotate(checkpoint=words.plain[0], label=label, note=note)


def _fork(words: Words, _body: str) -> Command:
    if not words.plain:
        raise words.refuse(f"%fork needs a number of branches, 1 to {MAX_FORKS}")
    words.at_most(1)
    text = words.plain[0]
    if not text.isdecimal() or not 1 <= int(text) <= MAX_FORKS:
        raise words.refuse(f"%fork makes 1 to {MAX_FORKS} branches at a time, not {text}")
    count = int(text)
    names = tuple(
        check_name(words.magic, name) for name in comma_list(words.flags.get("--names", ""))
    )
    if names and len(names) != count:
        raise words.refuse(f"%fork {count} needs {count} names, and {len(names)} are given")
    if len(set(names)) != len(names):
        raise words.refuse(f"the names {', '.join(names)} are not all different")
    return Fork(
        count=count,
        start=words.flags.get("--from"),
        names=names,
        same_random="--same-random" in words.flags,
    )


def _rollback(words: Words, _body: str) -> Command:
    words.at_most(1)
    target = words.plain[0] if words.plain else None
    return Rollback(
        target=target,
        safety="--no-safety" not in words.flags,
        preview="--preview" in words.flags,
        keep_queue=KEEP_QUEUE in words.flags,
    )


def _undo(words: Words, _body: str) -> Command:
    words.at_most(1)
    text = words.plain[0] if words.plain else "1"
    if not _is_count(text):
        raise words.refuse(f"%undo goes back by a number of cells, 1 or more, not {text}")
    preview, keep_queue = "--preview" in words.flags, KEEP_QUEUE in words.flags
    return Undo(cells=int(text), preview=preview, keep_queue=keep_queue)


def _autocheckpoint(words: Words, _body: str) -> Command:
    match list(words.plain):
        case []:
            return AutoCheckpoint(None)
        case ["on"]:
            return AutoCheckpoint(1)
        case ["off"]:
            return AutoCheckpoint(0)
        case ["every", text] if _is_count(text):
            return AutoCheckpoint(int(text))
        case said:
            raise words.refuse(
                f"%autocheckpoint is on, off, or every N cells, not {' '.join(said)!r}"
            )


def _diff(words: Words, _body: str) -> Command:
    if not words.plain:
        raise words.refuse("%diff needs the name of a branch or checkpoint to compare with")
    words.at_most(2)
    before, *rest = words.plain
    return Diff(before=before, after=next(iter(rest), None), text=words.flags.get("--text"))


def _branches(words: Words, _body: str) -> Command:
    words.at_most(0)
    return Branches()


def _checkpoints(words: Words, _body: str) -> Command:
    words.at_most(0)
    return Checkpoints()


def _switch(words: Words, _body: str) -> Command:
    return Switch(words.one_name())


def _keep(words: Words, _body: str) -> Command:
    return Keep(words.one_name())


def _drop(words: Words, _body: str) -> Command:
    names = tuple(name for word in words.plain for name in comma_list(word))
    if not names:
        raise words.refuse("%drop needs the name of at least one branch")
    return Drop(names)


def _lineage(words: Words, _body: str) -> Command:
    words.at_most(0)
    return ShowLineage()


def _pause(words: Words, _body: str) -> Command:
    words.at_most(1)
    return Pause(next(iter(words.plain), None))


def _resume(words: Words, _body: str) -> Command:
    words.at_most(1)
    return Resume(next(iter(words.plain), None))


def _branch(words: Words, body: str) -> Command:
    names = tuple(dict.fromkeys(name for word in words.plain for name in comma_list(word)))
    if not names:
        raise words.refuse("%%branch needs the names of the branches to run this cell in")
    if not body.strip():
        raise words.refuse("%%branch has no cell to run: write the code below it")
    if ALL not in names:
        return RunIn(names=names, body=body)
    if len(names) > 1:
        raise words.refuse(f"%%branch takes names or {ALL!r}, not both")
    return RunIn(names=None, body=body)


_READERS: MappingProxyType[str, Callable[[Words, str], Command]] = MappingProxyType(
    {
        "checkpoint": _checkpoint,
        "annotate": _annotate,
        "fork": _fork,
        "rollback": _rollback,
        "undo": _undo,
        "autocheckpoint": _autocheckpoint,
        "diff": _diff,
        "branches": _branches,
        "checkpoints": _checkpoints,
        "lineage": _lineage,
        "switch": _switch,
        "keep": _keep,
        "drop": _drop,
        "pause": _pause,
        "resume": _resume,
        "branch": _branch,
        **IMAGE_READERS,
        **OUTSIDE_READERS,
    }
)

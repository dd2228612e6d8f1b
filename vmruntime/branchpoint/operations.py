"""Checkpoint, fork and rollback as functions: each returns in every machine that comes of it."""

import shlex
from collections.abc import Sequence
from typing import NoReturn

from branchpoint.calls import Woken, ask_magic
from branchpoint.errors import BranchpointError
from branchpoint.waking import identity


class Moment(str):
    """What `checkpoint` returns: "saved", or "restored" in a machine that woke from it.

    `label` and `id` name the checkpoint; `id` is empty where it was restored. `branch` is the
    branch it is now. `reason` is why it was restored ("rollback", "fork", ...), or empty.
    """

    label: str
    id: str
    branch: str
    reason: str

    def __new__(
        cls,
        state: str,
        *,
        label: str = "",
        id: str = "",  # noqa: A002 (what it is called everywhere)
        branch: str = "",
        reason: str = "",
    ) -> "Moment":
        """A moment in that state."""
        moment = super().__new__(cls, state)
        moment.label, moment.id, moment.branch, moment.reason = label, id, branch, reason
        return moment

    @property
    def restored(self) -> bool:
        """Whether a machine woke from it; else it has just been saved."""
        return self == "restored"


def checkpoint(label: str | None = None, *, note: str = "") -> Moment:
    """Save this machine, in the middle of what it does.

    Returns "saved"; and once more, "restored", in each machine that wakes from the checkpoint, by
    rollback, fork or switch, as C's `setjmp` does. Raises BranchpointError if it cannot be saved.
    """
    words = [] if label is None else [str(label)]
    words += [f"--note={note}"] if note else []
    answer = ask_magic("checkpoint", shlex.join(words), by="function")
    if isinstance(answer, Woken):
        named = label or ""
        return Moment("restored", label=named, branch=answer.branch, reason=answer.reason)
    facts = answer.value
    return Moment("saved", label=facts["label"], id=facts["id"], branch=identity().name)


def fork(count: int, *, names: Sequence[str] = (), same_random: bool = False) -> int:
    """Make `count` branches that carry on from here, as this one does.

    Returns in all of them: 0 here, 1 to `count` in the forks. They are named by `names`, or
    numbered. The global generators of `random`, numpy and torch are reseeded in each, unless
    `same_random`. Raises BranchpointError if none comes up.
    """
    words = [str(count)]
    words += [f"--names={','.join(names)}"] if names else []
    words += ["--same-random"] if same_random else []
    answer = ask_magic("fork", shlex.join(words), by="function")
    return answer.index if isinstance(answer, Woken) else int(answer.value["index"])


def rollback(
    checkpoint: str | None = None, *, safety: bool = True, keep_queue: bool = False
) -> NoReturn:
    """Take this branch back to a checkpoint, by label, id or Moment; without one, to its last.

    Never returns: the machine ends, and what it was when the checkpoint was taken carries on. It is
    saved first, unless `safety` is False. Cells queued behind this one are dropped, unless
    `keep_queue`. Raises BranchpointError if there is no way back, and in a machine that is woken
    from what was saved.
    """
    words = [] if checkpoint is None else [_name_of(checkpoint)]
    words += [] if safety else ["--no-safety"]
    words += ["--keep-queue"] if keep_queue else []
    answer = ask_magic("rollback", shlex.join(words), by="function")
    if isinstance(answer, Woken):
        raise woken_instead(answer, "rollback")
    raise BranchpointError("the rollback did not take place")


def woken_instead(woken: Woken, what: str) -> BranchpointError:
    """The error of a call that ends with its machine woken from a checkpoint taken meanwhile."""
    return BranchpointError(
        f"{what} was under way when this machine was saved; now it was woken by {woken.reason}"
    )


def _name_of(checkpoint: str) -> str:
    if not isinstance(checkpoint, Moment):
        return str(checkpoint)
    name = checkpoint.id or checkpoint.label
    if not name:
        raise BranchpointError(
            "this moment was restored from a checkpoint without a label",
            hint="give its label or id, as %checkpoints lists them",
        )
    return name

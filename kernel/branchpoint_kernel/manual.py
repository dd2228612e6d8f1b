"""What each magic is called, takes and does: the one place help and completion are read from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from branchpoint_vmruntime.session import MAX_FORKS


class Takes(Enum):
    """What an argument names, and so what completion offers for it."""

    NOTHING = "nothing"
    TEXT = "text"
    NUMBER = "number"
    CHECKPOINT = "checkpoint"
    BRANCH = "branch"
    NEW_NAMES = "new names"


@dataclass(frozen=True, slots=True, kw_only=True)
class Magic:
    """One magic. `usage` is what to type, `flags` what each flag takes."""

    name: str
    usage: str
    summary: str
    details: str
    takes: Takes
    flags: Mapping[str, Takes] = field(default_factory=dict[str, Takes])
    cell: bool = False

    @property
    def marked(self) -> str:
        """With its percent signs."""
        return f"%%{self.name}" if self.cell else f"%{self.name}"

    @property
    def help(self) -> str:
        """The whole of what there is to say."""
        return f"{self.usage}\n\n{self.summary}\n\n{self.details}\n"


MAGICS = MappingProxyType(
    {
        magic.name: magic
        for magic in (
            Magic(
                name="checkpoint",
                usage="%checkpoint [LABEL] [--note TEXT]",
                summary="Save the current branch: memory, processes, files, the moment itself.",
                details=(
                    "Everything in the machine stands still for some milliseconds and runs on.\n"
                    "LABEL names the moment for %rollback and %fork --from; without one it gets\n"
                    "a number. Put a TEXT of several words in quotes.\n\n"
                    "    %checkpoint loaded\n"
                    "    %checkpoint loaded --note 'before the joins'"
                ),
                takes=Takes.TEXT,
                flags={"--note": Takes.TEXT},
            ),
            Magic(
                name="fork",
                usage="%fork N [--from CHECKPOINT] [--names a,b,c] [--same-random]",
                summary=f"Make N live branches (1 to {MAX_FORKS}) from here or from a checkpoint.",
                details=(
                    "Each continues from the very moment, shares memory until it writes, and is\n"
                    "reached with %%branch or %switch. The current branch runs on. Inside each\n"
                    "one `branch.name` and `branch.index` tell which it is.\n"
                    "The global generators of random, numpy and torch are reseeded in each;\n"
                    "--same-random keeps them equal.\n\n"
                    "    %fork 3 --names ridge,forest,boost\n"
                    "    %fork 2 --from loaded"
                ),
                takes=Takes.NUMBER,
                flags={
                    "--from": Takes.CHECKPOINT,
                    "--names": Takes.NEW_NAMES,
                    "--same-random": Takes.NOTHING,
                },
            ),
            Magic(
                name="rollback",
                usage="%rollback [CHECKPOINT] [--no-safety]",
                summary="Take this branch back to a checkpoint; without one, to its last.",
                details=(
                    "Processes, memory and files are as they were, same PIDs. Cells queued\n"
                    "behind the rollback are dropped. What is left behind is saved first, so a\n"
                    "rollback can be rolled back; --no-safety skips that.\n\n"
                    "    %rollback\n"
                    "    %rollback loaded"
                ),
                takes=Takes.CHECKPOINT,
                flags={"--no-safety": Takes.NOTHING},
            ),
            Magic(
                name="branches",
                usage="%branches",
                summary="List the branches of this notebook, with their memory.",
                details="A star marks the one that plain cells run in.",
                takes=Takes.NOTHING,
            ),
            Magic(
                name="checkpoints",
                usage="%checkpoints",
                summary="List the checkpoints of this notebook, with what they cost.",
                details="The first, the base, is the fresh machine every session starts from.",
                takes=Takes.NOTHING,
            ),
            Magic(
                name="switch",
                usage="%switch NAME",
                summary="Continue this notebook as another branch; this one runs on unseen.",
                details="A parked branch is woken.\n\n    %switch forest",
                takes=Takes.BRANCH,
            ),
            Magic(
                name="keep",
                usage="%keep NAME",
                summary="Continue this notebook as NAME; save and end every other branch.",
                details="The others are parked, not lost: %switch wakes them.\n\n    %keep boost",
                takes=Takes.BRANCH,
            ),
            Magic(
                name="drop",
                usage="%drop NAME...",
                summary="Give branches up: their machines end and are not saved.",
                details="Their checkpoints stay.\n\n    %drop ridge forest",
                takes=Takes.BRANCH,
            ),
            Magic(
                name="branch",
                usage="%%branch NAME[,NAME...]|all",
                summary="Run this cell in the named branches at once, outputs side by side.",
                details=(
                    "all means every live branch but the current one. The magic must be the\n"
                    "first line of the cell.\n\n"
                    "    %%branch ridge,forest\n"
                    "    fit(MODELS[branch.name])"
                ),
                takes=Takes.BRANCH,
                cell=True,
            ),
        )
    }
)

"""What each magic is called, takes and does: the one place help and completion are read from."""

from types import MappingProxyType

from branchpoint_kernel.image_manual import IMAGE
from branchpoint_kernel.magic import Magic, Takes
from branchpoint_kernel.outside_manual import OUTSIDE
from branchpoint_vmruntime.session import MAX_FORKS

MAGICS = MappingProxyType(
    {
        magic.name: magic
        for magic in (
            Magic(
                name="checkpoint",
                usage="%checkpoint [LABEL] [--note TEXT] [--pin]",
                summary="Save the current branch: memory, processes, files, the moment itself.",
                details=(
                    "Everything in the machine stands still for some milliseconds and runs on.\n"
                    "LABEL names the moment for %rollback and %fork --from; without one it gets\n"
                    "a number. Put a TEXT of several words in quotes. --pin keeps it when\n"
                    "checkpoints are removed to make room.\n\n"
                    "    %checkpoint loaded\n"
                    "    %checkpoint loaded --note 'before the joins'"
                ),
                takes=Takes.TEXT,
                flags={"--note": Takes.TEXT, "--pin": Takes.NOTHING},
            ),
            Magic(
                name="annotate",
                usage="%annotate CHECKPOINT [--label NEW] [--note TEXT]",
                summary="Give a checkpoint another label or note, or both.",
                details=(
                    "Nothing of what was saved changes. The new label is what %rollback and\n"
                    "%fork --from find from then on; the old one is free again.\n\n"
                    "    %annotate checkpoint-3 --label cleaned\n"
                    "    %annotate loaded --note 'without the rows of 2019'"
                ),
                takes=Takes.CHECKPOINT,
                flags={"--label": Takes.TEXT, "--note": Takes.TEXT},
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
                usage="%rollback [CHECKPOINT] [--no-safety] [--keep-queue] [--preview]",
                summary="Take this branch back to a checkpoint; without one, to its last.",
                details=(
                    "Processes, memory and files are as they were, same PIDs. Cells queued\n"
                    "behind the rollback are dropped: they were sent before it was known how\n"
                    "it ends. --keep-queue runs them, as a notebook made for Run All wants.\n"
                    "What is left behind is saved first, so a rollback can be rolled back;\n"
                    "--no-safety skips that. --preview changes nothing: it shows what would\n"
                    "be undone, of cells, files, variables and packages. What has left the\n"
                    "machine since is not undone: both name it.\n\n"
                    "    %rollback\n"
                    "    %rollback loaded --preview"
                ),
                takes=Takes.CHECKPOINT,
                flags={
                    "--no-safety": Takes.NOTHING,
                    "--keep-queue": Takes.NOTHING,
                    "--preview": Takes.NOTHING,
                },
            ),
            Magic(
                name="undo",
                usage="%undo [N] [--keep-queue] [--preview]",
                summary="Take this branch back by N executed cells; without a number, by one.",
                details=(
                    "It goes to the newest checkpoint that is N cells back or more and was taken\n"
                    "between cells, and says how many are undone. %autocheckpoint on makes one\n"
                    "after every cell. Like every rollback it saves first what it leaves, and\n"
                    "drops the cells queued behind it, unless --keep-queue.\n\n"
                    "    %undo\n"
                    "    %undo 3 --preview"
                ),
                takes=Takes.NUMBER,
                flags={"--keep-queue": Takes.NOTHING, "--preview": Takes.NOTHING},
            ),
            Magic(
                name="autocheckpoint",
                usage="%autocheckpoint [on|off|every N]",
                summary="Save the branch after every executed cell, or every N; without more, ask.",
                details=(
                    "The first is taken at once. Cells of magics alone do not count, cells that\n"
                    "fail do. It is off until it is switched on, and after a restart.\n\n"
                    "    %autocheckpoint on\n"
                    "    %autocheckpoint every 5"
                ),
                takes=Takes.ON_OR_OFF,
            ),
            Magic(
                name="diff",
                usage="%diff A [B] [--text PATH]",
                summary="Show what differs from A to B: files, variables, packages.",
                details=(
                    "A and B are branches or checkpoints; without B it is this branch as it is\n"
                    "now. + is only in B, - only in A, ~ in both but different. --text shows one\n"
                    "file line by line instead. Nothing of yours is run but repr, for at most a\n"
                    "few hundred characters.\n\n"
                    "    %diff loaded\n"
                    "    %diff ridge forest --text /root/report.md"
                ),
                takes=Takes.BRANCH_OR_CHECKPOINT,
                flags={"--text": Takes.FILE},
            ),
            Magic(
                name="branches",
                usage="%branches",
                summary="List the branches of this notebook, with their memory and forwards.",
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
                name="lineage",
                usage="%lineage",
                summary="Show the tree of checkpoints and branches: where you are, what it cost.",
                details=(
                    "It stays up to date while things happen, also while the machine is busy or\n"
                    "paused, and survives every rollback. What is selected in it can be rolled\n"
                    "back to, forked, switched to, kept, dropped, paused, compared, renamed,\n"
                    "pinned and noted; in JupyterLab and Notebook 7 it can be opened as a\n"
                    "notebook of its own, seen side by side with this one, and its text be\n"
                    "restored. A saved notebook shows it as a picture and tables. Asked for by\n"
                    "code, as in a loop, it is the tables alone."
                ),
                takes=Takes.NOTHING,
            ),
            Magic(
                name="switch",
                usage="%switch NAME",
                summary="Continue this notebook as another branch; this one runs on unseen.",
                details="A paused or parked branch is woken.\n\n    %switch forest",
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
                name="pause",
                usage="%pause [NAME]",
                summary="Save this branch, or NAME, and give its memory and processor time back.",
                details=(
                    "It carries on from the very moment, same PIDs, in the next second or next\n"
                    "week, also after this computer was restarted. A cell in it resumes it by\n"
                    "itself, and so does a forwarded port; %resume does it at once. It is not\n"
                    "paused while a cell runs in it.\n\n"
                    "    %pause\n"
                    "    %pause forest"
                ),
                takes=Takes.LIVE_BRANCH,
            ),
            Magic(
                name="resume",
                usage="%resume [NAME]",
                summary="Give this branch, or NAME, its machine again, at the moment of its pause.",
                details=(
                    "A parked or lost branch is woken as well, from its last checkpoint. The\n"
                    "notebook goes on as the branch it is: %switch changes that.\n\n"
                    "    %resume\n"
                    "    %resume forest"
                ),
                takes=Takes.RESTING_BRANCH,
            ),
            Magic(
                name="branch",
                usage="%%branch NAME[,NAME...]|all",
                summary="Run this cell in the named branches at once, outputs side by side.",
                details=(
                    "all means every live or paused branch but the current one. What is paused\n"
                    "is resumed. The magic must be the first line of the cell.\n\n"
                    "    %%branch ridge,forest\n"
                    "    fit(MODELS[branch.name])"
                ),
                takes=Takes.BRANCH,
                cell=True,
            ),
            *IMAGE,
            *OUTSIDE,
        )
    }
)

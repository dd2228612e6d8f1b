"""Any sequence of operations on a lineage: nothing lost or rewritten, every path ends at a base."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.unit.lineage.facts import SESSION, a_base, a_branch, a_checkpoint, a_session

from branchpoint_vmruntime.errors import NameTakenError, UnknownNameError, UsageError
from branchpoint_vmruntime.lineage import (
    BranchName,
    BranchRecord,
    BranchState,
    Checkpoint,
    CheckpointId,
    CheckpointKind,
)
from branchpoint_vmruntime.lineage.journal import Journal
from branchpoint_vmruntime.lineage.naming import branch_names
from branchpoint_vmruntime.lineage.tree import Tree

STANDING = {BranchState.LIVE, BranchState.PARKED, BranchState.LOST}


class LineageMachine(RuleBasedStateMachine):
    """A session in a journal, beside what it ought to hold."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name) / "lineage.db"
        self.journal = Journal.open(self.path)
        self.checkpoints: dict[CheckpointId, Checkpoint] = {}
        self.branches: dict[BranchName, BranchRecord] = {}
        self.made = 0

    def teardown(self) -> None:
        self.journal.close()
        self._folder.cleanup()

    @initialize()
    def start(self) -> None:
        self.journal.add_session(a_session())
        self.journal.add_checkpoint(a_base(), advance=None)
        self.journal.put_branch(a_branch())
        self.checkpoints[a_base().id] = a_base()
        self.branches[a_branch().name] = a_branch()

    def pick_branch(self, data: st.DataObject, *states: BranchState) -> BranchRecord:
        fitting = [each for each in self.branches.values() if each.state in states]
        return data.draw(st.sampled_from(fitting))

    def pick_checkpoint(self, data: st.DataObject) -> Checkpoint:
        return data.draw(st.sampled_from(list(self.checkpoints.values())))

    def put(self, record: BranchRecord) -> None:
        self.journal.put_branch(record)
        self.branches[record.name] = record

    def has(self, *states: BranchState) -> bool:
        return any(branch.state in states for branch in self.branches.values())

    @precondition(lambda self: self.has(BranchState.LIVE))
    @rule(data=st.data(), kind=st.sampled_from([CheckpointKind.USER, CheckpointKind.SAFETY]))
    def take_a_checkpoint(self, data: st.DataObject, kind: CheckpointKind) -> None:
        branch = self.pick_branch(data, BranchState.LIVE)
        self.made += 1
        checkpoint = a_checkpoint(
            f"id{self.made:04}", branch.head, branch=branch.name, kind=kind, minute=self.made
        )
        self.journal.add_checkpoint(checkpoint, advance=branch.name)
        self.checkpoints[checkpoint.id] = checkpoint
        self.branches[branch.name] = a_branch_at(branch, checkpoint.id, branch.state)

    @precondition(lambda self: self.has(BranchState.LIVE) and len(self.branches) < 12)
    @rule(data=st.data(), count=st.integers(1, 3))
    def fork(self, data: st.DataObject, count: int) -> None:
        parent, origin = self.pick_branch(data, BranchState.LIVE), self.pick_checkpoint(data)
        names = branch_names(count, (), self.branches, parent=parent.name)
        records = [
            a_branch(name, origin.id, origin=origin.id, parent=parent.name, index=number)
            for number, name in enumerate(names, start=1)
        ]
        self.journal.put_branches(records)
        self.branches |= {record.name: record for record in records}

    @precondition(lambda self: self.has(BranchState.LIVE, BranchState.LOST))
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        branch = self.pick_branch(data, BranchState.LIVE, BranchState.LOST)
        target = self.pick_checkpoint(data)
        self.put(a_branch_at(branch, target.id, BranchState.LIVE))

    @precondition(lambda self: self.has(BranchState.LIVE))
    @rule(data=st.data())
    def keep(self, data: st.DataObject) -> None:
        kept = self.pick_branch(data, BranchState.LIVE)
        parked = [
            a_branch_at(branch, branch.head, BranchState.PARKED)
            for branch in self.branches.values()
            if branch.state is BranchState.LIVE and branch != kept
        ]
        self.journal.put_branches(parked)
        self.branches |= {record.name: record for record in parked}

    @rule(data=st.data(), state=st.sampled_from([BranchState.DROPPED, BranchState.LOST]))
    def give_up(self, data: st.DataObject, state: BranchState) -> None:
        if self.has(BranchState.LIVE, BranchState.PARKED):
            branch = self.pick_branch(data, BranchState.LIVE, BranchState.PARKED)
            self.put(a_branch_at(branch, branch.head, state))

    @rule(data=st.data())
    def refuse_a_stranger(self, data: st.DataObject) -> None:
        stranger = a_checkpoint("child-of-nobody", "nobody")
        with pytest.raises(UnknownNameError):
            self.journal.add_checkpoint(stranger, advance=None)
        with pytest.raises(UnknownNameError):
            self.journal.remove_checkpoint(CheckpointId("nobody"))
        known = self.pick_checkpoint(data)
        adopted = a_checkpoint("of-no-branch", known.id)
        with pytest.raises(UnknownNameError):
            self.journal.add_checkpoint(adopted, advance=BranchName("no-such-branch"))

    @rule(data=st.data())
    def refuse_to_rewrite(self, data: st.DataObject) -> None:
        known = self.pick_checkpoint(data)
        with pytest.raises(NameTakenError):
            self.journal.add_checkpoint(a_checkpoint(known.id, label="forged"), advance=None)

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        target = self.pick_checkpoint(data)
        is_parent = any(each.parent == target.id for each in self.checkpoints.values())
        is_head = any(
            branch.head == target.id and branch.state in STANDING
            for branch in self.branches.values()
        )
        if is_parent or is_head:
            with pytest.raises(UsageError):
                self.journal.remove_checkpoint(target.id)
        elif target.parent is not None:
            self.journal.remove_checkpoint(target.id)
            del self.checkpoints[target.id]

    @rule()
    def reopen(self) -> None:
        self.journal.close()
        self.journal = Journal.open(self.path)

    @invariant()
    def nothing_is_lost_or_rewritten(self) -> None:
        assert self.journal.checkpoints(SESSION) == list(self.checkpoints.values())
        assert self.journal.branches(SESSION) == list(self.branches.values())

    @invariant()
    def every_path_ends_at_a_base(self) -> None:
        tree = Tree(self.journal.checkpoints(SESSION))
        for checkpoint in self.checkpoints.values():
            assert tree.path(checkpoint.id)[-1].kind is CheckpointKind.BASE

    @invariant()
    def every_branch_that_can_go_on_has_something_to_stand_on(self) -> None:
        known = {checkpoint.id for checkpoint in self.journal.checkpoints(SESSION)}
        for branch in self.journal.branches(SESSION):
            assert branch.state not in STANDING or branch.head in known


def a_branch_at(branch: BranchRecord, head: CheckpointId, state: BranchState) -> BranchRecord:
    return a_branch(
        branch.name,
        head,
        origin=branch.origin,
        parent=branch.parent,
        index=branch.index,
        state=state,
    )


TestLineage = LineageMachine.TestCase
TestLineage.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)

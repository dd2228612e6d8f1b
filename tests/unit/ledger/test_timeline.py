"""What is not undone, against machines that remember each effect they have seen."""

from dataclasses import dataclass, field, replace
from itertools import count

from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.unit.ledger.facts import NOON, a_draft, an_outcome
from tests.unit.lineage.facts import a_base, a_checkpoint

from branchpoint_vmruntime.ledger import Decision, Entry, EntryKind, OutcomeState
from branchpoint_vmruntime.ledger.timeline import not_undone, past
from branchpoint_vmruntime.lineage import Checkpoint, Moment

Memory = tuple[int, ...]
"""The numbers of the effects that a machine has seen, as it would remember them itself."""


@dataclass
class Running:
    """A machine that is only what it remembers."""

    incarnation: str
    memory: list[int] = field(default_factory=list[int])


class Histories(RuleBasedStateMachine):
    """Machines that act outside, are saved, forked and rolled back, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []
        self.saved: list[tuple[Checkpoint, Memory]] = [(a_base(), ())]
        self.machines: list[Running] = []
        self._names = count(1)

    @initialize()
    def start(self) -> None:
        self.wake(*self.saved[0])

    def write(self, incarnation: str, kind: EntryKind, key: str = "") -> int:
        number = len(self.entries) + 1
        draft = a_draft(key, kind=kind, incarnation=incarnation)
        self.entries.append(Entry(number=number, at=NOON, draft=draft))
        return number

    def wake(self, checkpoint: Checkpoint, memory: Memory) -> Running:
        machine = Running(f"inc-{next(self._names)}", list(memory))
        self.write(machine.incarnation, EntryKind.WAKE, checkpoint.id)
        self.machines.append(machine)
        return machine

    @rule(data=some.data(), kind=some.sampled_from([EntryKind.REQUEST, EntryKind.ONCE]))
    def act(self, data: some.DataObject, kind: EntryKind) -> None:
        machine = data.draw(some.sampled_from(self.machines))
        machine.memory.append(self.write(machine.incarnation, kind))

    @rule(data=some.data())
    def save(self, data: some.DataObject) -> None:
        machine = data.draw(some.sampled_from(self.machines))
        moment = Moment(incarnation=machine.incarnation, position=len(self.entries))
        checkpoint = replace(a_checkpoint(f"c{len(self.saved)}"), moment=moment)
        self.saved.append((checkpoint, tuple(machine.memory)))

    @rule(data=some.data())
    def fork(self, data: some.DataObject) -> None:
        self.wake(*data.draw(some.sampled_from(self.saved)))

    @rule(data=some.data())
    def roll_back(self, data: some.DataObject) -> None:
        self.machines.remove(data.draw(some.sampled_from(self.machines)))
        self.wake(*data.draw(some.sampled_from(self.saved)))

    def teardown(self) -> None:
        self.each_past_is_what_the_machine_remembers()
        self.not_undone_is_what_the_machine_remembers_and_the_saved_one_does_not()

    def each_past_is_what_the_machine_remembers(self) -> None:
        for machine in self.machines:
            assert numbers(self.past_of(machine)) == machine.memory

    def not_undone_is_what_the_machine_remembers_and_the_saved_one_does_not(self) -> None:
        for machine in self.machines:
            for checkpoint, memory in self.saved:
                found = not_undone(
                    self.entries,
                    [each for each, _ in self.saved],
                    incarnation=machine.incarnation,
                    target=checkpoint,
                )
                assert numbers(found) == [at for at in machine.memory if at not in memory]

    def past_of(self, machine: Running) -> list[Entry]:
        return past(self.entries, [each for each, _ in self.saved], machine.incarnation)


TestHistories = Histories.TestCase


def numbers(entries: list[Entry]) -> list[int]:
    return [entry.number for entry in entries]


def test_what_changed_nothing_outside_needs_no_undoing() -> None:
    drafts = (
        replace(a_draft(kind=EntryKind.REQUEST), decision=Decision.REFUSED),
        a_draft(decision=Decision.REPLAYED),
        a_draft(kind=EntryKind.POLICY),
        a_draft(kind=EntryKind.REQUEST),
        a_draft(kind=EntryKind.REQUEST),
    )
    outcomes = (None, None, None, an_outcome(OutcomeState.FAILED), an_outcome(OutcomeState.UNKNOWN))
    entries = [
        Entry(number=number, at=NOON, draft=draft, outcome=outcome)
        for number, (draft, outcome) in enumerate(zip(drafts, outcomes, strict=True), start=1)
    ]
    assert numbers(not_undone(entries, [], incarnation="inc-1", target=a_base())) == [5]


def test_of_a_checkpoint_that_is_gone_nothing_is_made_up() -> None:
    entries = [
        Entry(number=1, at=NOON, draft=a_draft("k")),
        Entry(number=2, at=NOON, draft=a_draft("gone", kind=EntryKind.WAKE, incarnation="inc-2")),
        Entry(number=3, at=NOON, draft=a_draft("k", incarnation="inc-2")),
    ]
    assert numbers(past(entries, [], "inc-2")) == [3]
    assert past(entries, [], "") == []

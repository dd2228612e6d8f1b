"""The kernels of a session's live branches, each with a task that takes in what it says."""

from asyncio import Task, TaskGroup
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

from branchpoint_kernel.left_behind import why_left
from branchpoint_kernel.pump import Listener, Pump
from branchpoint_vmruntime.branch_seam import Branch
from branchpoint_vmruntime.errors import BranchpointError, MachineEndedError
from branchpoint_vmruntime.lineage import BranchName, BranchState, CheckpointId, Moment
from branchpoint_vmruntime.session import Session


class Pumps:
    """One pump for each live branch; follows the session from operation to operation."""

    def __init__(
        self,
        session: Session,
        tasks: TaskGroup,
        listener: Listener,
        wait_settled: Callable[[], Awaitable[None]],
    ) -> None:
        self._session = session
        self._tasks = tasks
        self._wait_settled = wait_settled
        self._listener = listener
        self._running: dict[str, tuple[Pump, Task[None]]] = {}
        self._deaths: dict[BranchName, BranchpointError] = {}
        self._paused: dict[BranchName, Pump] = {}

    def __iter__(self) -> Iterator[Pump]:
        return iter([pump for pump, _ in self._running.values()])

    @property
    def current(self) -> Pump:
        """That of the branch plain cells run in; BranchpointError if it has no machine."""
        branch = self._session.current
        try:
            return self.of(branch)
        except BranchpointError as error:
            raise self._deaths.get(branch.name, error) from error

    @property
    def count(self) -> int:
        """The current kernel's last In[] number, also while it has no machine; 0 if none knows."""
        try:
            return self.current.execution_count
        except BranchpointError:
            with suppress(BranchpointError):
                return self._moment(self._session.current).count
            return 0

    def of(self, branch: Branch) -> Pump:
        """That of a live branch."""
        incarnation = branch.kernel.incarnation
        if incarnation not in self._running:
            self.adopt()
        if incarnation not in self._running:
            ended = MachineEndedError(f"branch {branch.name!r} has no live machine")
            raise self._deaths.get(branch.name, ended)
        return self._running[incarnation][0]

    def of_name(self, branch: str) -> list[Pump]:
        """Those taken on for branches of that name."""
        return [pump for pump in self if pump.branch.name == branch]

    def look_again(self) -> None:
        """Something may have come to its end that no kernel says the end of."""
        self._listener.on_change()

    def is_current(self, pump: Pump) -> bool:
        """Whether plain cells run there."""
        try:
            return self._session.current.kernel.incarnation == pump.channel.incarnation
        except BranchpointError:
            return False

    def adopt(self) -> None:
        """Take on the kernels that have come, let go of those that are gone."""
        live = {
            branch.kernel.incarnation: branch
            for branch in self._session.branches()
            if branch.state is BranchState.LIVE
        }
        for incarnation in self._running.keys() - live.keys():
            self._let_go(incarnation)
        for incarnation in live.keys() - self._running.keys():
            self._take_on(live[incarnation])

    def _take_on(self, branch: Branch) -> None:
        self._deaths.pop(branch.name, None)
        pump = Pump(branch, branch.kernel, self._listener, self._note_death, self._wait_settled)
        before = self._paused.pop(branch.name, None)
        if before is not None:
            # The same kernel: what nobody has looked at yet and its last requests are still that.
            pump.asides = before.asides
            pump.unseen.extend(before.unseen)
        pump.inherit(self._moment(branch))
        task = self._tasks.create_task(pump.run(), name=f"pump of {branch.name}")
        self._running[branch.kernel.incarnation] = (pump, task)
        self._listener.on_awake(pump)

    def _moment(self, branch: Branch) -> Moment:
        points = self._session.checkpoints()
        head = next((point for point in points if point.id == branch.record.head), None)
        return head.moment if head is not None else Moment()

    def last_checkpoint(self, pump: Pump) -> str:
        """The label of the checkpoint its branch last saved or woke from, or words for it."""
        labels = dict[CheckpointId, str]()
        # It is asked for to tell of something else, which is told without it too.
        with suppress(BranchpointError):
            labels = {point.id: point.label for point in self._session.checkpoints()}
        return labels.get(pump.branch.record.head, "its last checkpoint")

    def _note_death(self, pump: Pump, error: BranchpointError) -> None:
        error.hint = (
            f"type %rollback {self.last_checkpoint(pump)} to go back there, or restart the kernel "
            "for a fresh machine"
        )
        self._deaths[pump.branch.name] = error

    def _let_go(self, incarnation: str) -> None:
        pump, task = self._running.pop(incarnation)
        task.cancel()
        if pump.branch.state is BranchState.PAUSED:
            self._paused[pump.branch.name] = pump
        if pump.ended is not None:
            return
        if pump.failure is not None and pump.branch.state is BranchState.LOST:
            self._note_death(pump, pump.failure)
            pump.end(pump.failure)
        else:
            pump.end(MachineEndedError(why_left(pump.branch)))

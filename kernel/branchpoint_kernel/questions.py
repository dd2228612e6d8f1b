"""What the kernel itself asks of the person at a front end, such as a secret's value."""

import asyncio

from branchpoint_kernel.messages import Message, Request
from branchpoint_kernel.publisher import Publisher
from branchpoint_vmruntime.errors import UsageError


class Questions:
    """One question at a time, under the cell that asks it.

    An answer that comes too late falls: no machine is to hear what was meant for us.
    """

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._asked: set[str] = set()
        self._answer: asyncio.Future[str] | None = None
        self._given_up = False

    async def ask_unseen(self, request: Request, prompt: str) -> str:
        """What is typed in, which the front end does not show; UsageError if it takes no input."""
        if not request.message.read().get("allow_stdin", True):
            raise UsageError("this front end takes no input")
        self._answer = asyncio.get_running_loop().create_future()
        self._asked.add(self._publisher.ask(request, prompt, password=True))
        try:
            return await self._answer
        finally:
            self._given_up = not self._answer.done() or self._answer.cancelled()
            self._answer = None

    def take(self, message: Message) -> bool:
        """Whether an answer was to a question of ours: then no one else is to have it.

        Some front ends do not say to which question an answer belongs.
        """
        ours = message.parent_id in self._asked
        if message.parent_id and not ours:
            return False
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(str(message.read().get("value", "")))
            return True
        given_up, self._given_up = self._given_up, False
        return ours or given_up

    def note_other(self) -> None:
        """A machine has asked something since: what comes next may be for it."""
        self._given_up = False

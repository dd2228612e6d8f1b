"""What the kernel itself asks of the person at a front end, such as a secret's value."""

import asyncio

from branchpoint_kernel.messages import Channel, Message, Request, made
from branchpoint_kernel.publisher import Publisher
from branchpoint_vmruntime.errors import UsageError


class Questions:
    """One question at a time, under the cell that asks it."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._answer: asyncio.Future[str] | None = None

    async def ask_unseen(self, request: Request, prompt: str) -> str:
        """What is typed in, which the front end does not show; UsageError if it takes no input."""
        if not request.message.read().get("allow_stdin", True):
            raise UsageError("this front end takes no input")
        content = {"prompt": prompt, "password": True}
        question = made(Channel.STDIN, "input_request", content, parent=request.message.header)
        self._answer = asyncio.get_running_loop().create_future()
        try:
            self._publisher.pass_on(request, question)
            return await self._answer
        finally:
            self._answer = None

    def take(self, message: Message) -> bool:
        """Whether an answer was to a question of ours, which then has it."""
        if self._answer is None or self._answer.done():
            return False
        self._answer.set_result(str(message.read().get("value", "")))
        return True

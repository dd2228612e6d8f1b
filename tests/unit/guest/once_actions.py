"""Things done once outside, for tests that see how often they were, and what happens meanwhile."""

import asyncio
import threading
from collections.abc import Callable


class Action:
    """Something done outside, that counts how often it is. `meanwhile` happens in its middle."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.begun = 0
        self.done = 0
        self._meanwhile = meanwhile

    def __call__(self) -> str:
        self.begun += 1
        self._meanwhile()
        self.done += 1
        return f"receipt {self.done}"

    async def in_task(self) -> str:
        """The same as a coroutine."""
        self.begun += 1
        await asyncio.sleep(0)
        self._meanwhile()
        await asyncio.sleep(30)
        self.done += 1
        return f"receipt {self.done}"


def elsewhere(happens: Callable[[], object]) -> Callable[[], None]:
    """In the middle of an action: something happens in another thread, as a waking does."""

    def meanwhile() -> None:
        other = threading.Thread(target=happens)
        other.start()
        other.join()

    return meanwhile


def raising(error: BaseException) -> Callable[[], None]:
    """A function that raises."""

    def function() -> None:
        raise error

    return function

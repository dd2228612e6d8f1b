"""How errors are answered: a status, and `{"message", "hint"}` as JSON, never a traceback."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import responses
from typing import Any

from tornado.web import HTTPError, RequestHandler

from branchpoint_vmruntime.errors import (
    BranchpointError,
    SessionBusyError,
    UnknownNameError,
    UsageError,
)


class OwnerGoneError(BranchpointError):
    """Whoever had the session open ended before it had answered."""


_STATUS: tuple[tuple[type[BranchpointError], HTTPStatus], ...] = (
    (UnknownNameError, HTTPStatus.NOT_FOUND),
    (UsageError, HTTPStatus.BAD_REQUEST),
    (SessionBusyError, HTTPStatus.CONFLICT),
    (OwnerGoneError, HTTPStatus.GONE),
    (BranchpointError, HTTPStatus.UNPROCESSABLE_ENTITY),
)


class RefusalError(HTTPError):
    """What cannot be, in the words of the runtime."""

    def __init__(self, status: HTTPStatus, message: str, hint: str = "") -> None:
        super().__init__(status, log_message=message)
        # What is logged has its percent signs doubled.
        self.told = {"message": message, "hint": hint}


def refusal(error: BranchpointError) -> RefusalError:
    """An error of the runtime as an answer."""
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    return RefusalError(status, str(error), error.hint)


@contextmanager
def in_words() -> Generator[None]:
    """Within it an error of the runtime becomes an answer."""
    try:
        yield
    except BranchpointError as error:
        raise refusal(error) from error


class Refusing(RequestHandler):
    """A handler that answers errors as JSON."""

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Say what is wrong, and of what is our own fault no more than that it went wrong."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        told = {"message": responses.get(status_code, "Unknown HTTP Error"), "hint": ""}
        match error:
            case RefusalError():
                told = error.told
            case HTTPError():
                told["message"] = error.log_message or error.reason or told["message"]
            case _:
                pass
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(told))  # pyright: ignore[reportUnknownMemberType]

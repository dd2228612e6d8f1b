"""What our handlers have in common: who may ask, how they answer, where the state is."""

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar, cast

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler, JupyterHandler

from branchpoint_nbext.refusing import RefusalError, Refusing, in_words
from branchpoint_nbext.views import session_on_record
from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage import SessionId

RESOURCE = "branchpoint"

Method = TypeVar("Method", bound=Callable[..., Any])


def may(action: str) -> Callable[[Method], Method]:
    """Around a method of a handler for whoever the server's authorizer lets do that."""
    # Once an action is given its own types say nothing.
    return cast("Callable[..., Callable[[Method], Method]]", authorized)(action=action)


class Asked(Refusing, JupyterHandler):
    """A request to us, by HTTP or for a websocket."""

    auth_resource = RESOURCE

    async def prepare(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Also a method that there is not is nobody's business who is not logged in."""
        await super().prepare()
        if self.request.method != "OPTIONS" and not self.current_user:
            raise RefusalError(HTTPStatus.FORBIDDEN, "not logged in to this Jupyter server")

    @property
    def home(self) -> Home:
        """Where the state is. Refused in words if there can be none."""
        with in_words():
            return Home.default()

    async def session_asked_for(self) -> SessionId:
        """The session in the request's query, which is on record."""
        with in_words():
            wanted = self.get_query_argument("session", strip=False)
            return (await session_on_record(self.home, wanted)).id


class BranchpointHandler(Asked, APIHandler):
    """A route that answers with JSON."""

    def answer(self, fields: Mapping[str, Any]) -> None:
        """Answer with an object."""
        self.finish(json.dumps(fields))

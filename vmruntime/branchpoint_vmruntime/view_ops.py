"""What the owner of a session answers at its control socket to whoever shows it."""

from collections.abc import Mapping
from typing import Any

from branchpoint_vmruntime.control_facts import OwnerKind, to_json
from branchpoint_vmruntime.control_fields import number, seconds, text
from branchpoint_vmruntime.control_socket import Handler
from branchpoint_vmruntime.errors import SessionBusyError, UsageError
from branchpoint_vmruntime.figures import figures_of
from branchpoint_vmruntime.session import Session
from branchpoint_vmruntime.viewing import cells_of, view_of

LONGEST_WATCH_S = 60.0


class ViewOps:
    """Only looks, so it waits for nothing that is under way."""

    def __init__(self, session: Session, owner: OwnerKind) -> None:
        self._session = session
        self._owner = owner

    def handlers(self) -> Mapping[str, Handler]:
        """By the name of the operation."""
        return {
            "view": self._view,
            "watch": self._watch,
            "figures": self._figures,
            "cells": self._cells,
            "renamed": self._renamed,
            # Whose driver looks into machines answers these itself.
            "preview": self._looks_into_none,
            "diff": self._looks_into_none,
        }

    async def _view(self, _request: Mapping[str, Any]) -> Mapping[str, Any]:
        return to_json(await view_of(self._session, owner=self._owner))

    async def _watch(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        most = LONGEST_WATCH_S
        timeout_s = seconds(request, "timeout_s", default=most, most=most)
        # Whoever asks with a `ControlClient` has that name for how long it waits itself.
        for_s = seconds(request, "for_s", default=timeout_s, most=most)
        seen = number(request, "seen", default=0)
        return {"version": await self._session.changes.wait(seen, timeout_s=for_s)}

    async def _figures(self, _request: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"figures": await figures_of(self._session)}

    async def _cells(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"cells": [to_json(it) for it in cells_of(self._session, text(request, "of"))]}

    async def _renamed(self, _request: Mapping[str, Any]) -> Mapping[str, Any]:
        """A key that is shown has become another on record."""
        self._session.changes.note()
        return {}

    async def _looks_into_none(self, _request: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._owner is OwnerKind.KERNEL:
            raise SessionBusyError(
                "the notebook's kernel is just starting", hint="ask again in a moment"
            )
        raise UsageError(
            "this session is open without its notebook's kernel, which alone looks into machines",
            hint="to see that, close it (`branchpoint close`, or end its script) and open its"
            " notebook; all else can be done as it is",
        )

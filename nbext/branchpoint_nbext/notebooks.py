"""Which notebook below a server's root folder a session's key means, and the other way round.

A path from a page is what the server's contents manager makes of it, and nothing outside of that.
"""

import asyncio
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

from jupyter_core.utils import ensure_async
from jupyter_server.base.handlers import JupyterHandler
from tornado.web import HTTPError

from branchpoint_nbext.refusing import RefusalError
from branchpoint_vmruntime.claiming import as_key
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.lineage import SessionId, SessionRecord

_log = logging.getLogger(__name__)
_BESIDE = re.compile(r" \([1-9][0-9]*\)$")
_SUFFIX = ".ipynb"


@dataclass(frozen=True, slots=True)
class Notebooks:
    """The notebooks of a Jupyter server. `folder_of` is where the kernel of one is started."""

    contents: Any
    root: Path
    folder_of: Callable[[str], str]

    @classmethod
    def of(cls, handler: JupyterHandler) -> Self:
        """Those of the server that a request is made to."""
        kernels: Any = handler.kernel_manager
        root = Path(kernels.root_dir).absolute()
        return cls(handler.contents_manager, root, kernels.cwd_for_path)

    def key_of(self, path: str) -> str:
        """The key that a kernel of the notebook at `path` has its session by.

        As `branchpoint_kernel` makes it of what the server tells a kernel it starts.
        """
        if named := named_for_all():
            return as_key(named)
        name = path.rpartition("/")[2]
        return as_key(str(Path(self.folder_of(path), name).absolute()))

    def path_of(self, key: str) -> str | None:
        """The path of the notebook that a key means; None if it is none below the root."""
        path = Path(_BESIDE.sub("", key) if not key.endswith(_SUFFIX) else key)
        if path.suffix != _SUFFIX or not path.is_relative_to(self.root):
            return None
        parts = path.relative_to(self.root).parts
        return None if any(part.startswith(".") for part in parts) else "/".join(parts)

    async def checked(self, path: str) -> str:
        """A path that a page has given, of a notebook that the server shows. Refused in words."""
        parts = path.split("/")
        if path.startswith("/") or "\0" in path or "" in parts or "." in parts or ".." in parts:
            raise UsageError(
                f"{path!r} is not the path of a notebook",
                hint="paths are relative to the server's root folder",
            )
        there = not await self._hidden(path) and await ensure_async(self.contents.file_exists(path))
        if not there:
            raise RefusalError(HTTPStatus.NOT_FOUND, f"this server has no file {path!r}")
        return path

    async def free_path(self, wanted: str, taken: Callable[[str], bool]) -> str:
        """The path of a notebook to be made: `wanted`, numbered if something is there already.

        `taken` tells whether a key has a session.
        """
        stem = wanted.removesuffix(_SUFFIX)
        number, path = 1, wanted
        while taken(self.key_of(path)) or await ensure_async(self.contents.exists(path)):
            number += 1
            path = f"{stem}-{number}{_SUFFIX}"
        return path

    async def withdraw(self, path: str) -> None:
        """Have a notebook that was made just now be no more. What that meets is logged, not raised.

        A contents manager would put it into the user's trash, or keep it where there is none.
        """
        try:
            await asyncio.to_thread(Path(self.key_of(path)).unlink)
        except FileNotFoundError:
            await self._delete(path)
        except OSError:
            _log.warning("the copy %r is left behind", path, exc_info=True)

    async def _delete(self, path: str) -> None:
        try:
            await ensure_async(self.contents.delete(path))
        except (OSError, HTTPError):
            _log.warning("the copy %r is left behind", path, exc_info=True)

    async def _hidden(self, path: str) -> bool:
        if self.contents.allow_hidden:
            return False
        by_name = any(part.startswith(".") for part in path.split("/"))
        return by_name or await ensure_async(self.contents.is_hidden(path))


def named_for_all() -> str:
    """The key that BRANCHPOINT_SESSION gives every kernel of this server; empty if none."""
    return os.environ.get("BRANCHPOINT_SESSION", "")


def newest_of(
    key: str,
    sessions: Iterable[SessionRecord],
    newest_at: Mapping[SessionId, datetime],
) -> SessionRecord | None:
    """Of the sessions of a key, and those that were opened beside it, what was saved in last."""
    found = [it for it in sessions if it.key == key or _is_beside(it.key, key)]
    return max(found, key=lambda it: newest_at.get(it.id, it.created_at), default=None)


def _is_beside(other: str, key: str) -> bool:
    return other.startswith(key) and _BESIDE.fullmatch(other[len(key) :]) is not None

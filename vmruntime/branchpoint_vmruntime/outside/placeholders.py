"""What machines hold in place of secrets: random words, each of one secret and one branch.

A placeholder is worth nothing by itself. It says whose use of which secret a request is, and only
the branch it was made for, or one whose memory came from there, may say so.
"""

import re
import secrets
from dataclasses import dataclass, field

from branchpoint_vmruntime.errors import RefusedError

_RANDOM_BYTES = 16
LOOKS_LIKE_ONE = re.compile(
    rb"branchpoint-([A-Za-z_][A-Za-z0-9_]*)-[A-Za-z0-9_-]{22}(?![A-Za-z0-9_-])"
)
MARK = b"branchpoint-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Which branch a placeholder was made for, and of which secret."""

    branch: str
    name: str


@dataclass(slots=True)
class _Holdings:
    """What is in one branch's machines."""

    own: dict[str, str] = field(default_factory=dict[str, str])
    inherited: set[str] = field(default_factory=set[str])


class Placeholders:
    """All placeholders of a session, in memory."""

    def __init__(self) -> None:
        self._origins: dict[str, Origin] = {}
        self._holdings: dict[str, _Holdings] = {}
        self._revoked: set[str] = set()

    def known(self) -> list[str]:
        """Every one ever made, those of dropped branches as well."""
        return list(self._origins)

    def origin(self, placeholder: str) -> Origin | None:
        """What it was made for; None if it was not made here."""
        return self._origins.get(placeholder)

    def revoked(self, branch: str) -> bool:
        """Whether the branch was dropped."""
        return branch in self._revoked

    def held(self, branch: str, placeholder: str) -> bool:
        """Whether it can be in that branch's memory by right: its own, or an ancestor's."""
        holdings = self._holdings.get(branch)
        if holdings is None:
            return False
        return placeholder in holdings.inherited or placeholder in holdings.own.values()

    def issue(self, branch: str, name: str) -> str:
        """The branch's placeholder for that secret, made at the first call.

        RefusedError if the branch was dropped.
        """
        if branch in self._revoked:
            raise RefusedError(f"the branch {branch!r} was dropped: no secret is at its disposal")
        own = self._holdings.setdefault(branch, _Holdings()).own
        if name not in own:
            made = f"branchpoint-{name}-{secrets.token_urlsafe(_RANDOM_BYTES)}"
            own[name] = made
            self._origins[made] = Origin(branch=branch, name=name)
        return own[name]

    def inherit(self, branch: str, parent: str | None) -> None:
        """Note that the branch's memory comes from the parent's: it holds what is held there.

        A branch made anew under the name of a dropped one begins with nothing of it.
        """
        self._revoked.discard(branch)
        holdings = self._holdings.setdefault(branch, _Holdings())
        source = self._holdings.get(parent) if parent is not None else None
        if source is not None and source is not holdings:
            holdings.inherited |= source.inherited | set(source.own.values())

    def revoke(self, branch: str) -> None:
        """Accept nothing of that branch any more. What descendants inherited stays theirs."""
        self._holdings.pop(branch, None)
        self._revoked.add(branch)

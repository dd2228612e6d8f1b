"""What machines hold in place of secrets: random words, each of one secret and one branch.

A placeholder is worth nothing by itself. It says whose use of which secret a request is, and only
the branch it was made for, or one whose memory came from there, may say so.
"""

import contextlib
import json
import logging
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from branchpoint_vmruntime.errors import RefusedError

log = logging.getLogger(__name__)

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
    """All placeholders of a session, kept in a file if one is given.

    A machine that is taken up again next week has them in its memory still.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._origins: dict[str, Origin] = {}
        self._holdings: dict[str, _Holdings] = {}
        self._revoked: set[str] = set()
        self._file = file
        if file is not None and file.exists():
            self._load(file)

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
            self._save()
        return own[name]

    def inherit(self, branch: str, parent: str | None) -> None:
        """Note that the branch's memory comes from the parent's: it holds what is held there.

        A branch made anew under the name of a dropped one begins with nothing of it.
        """
        before = branch in self._revoked, self._holdings.get(branch, _Holdings()).inherited.copy()
        self._revoked.discard(branch)
        holdings = self._holdings.setdefault(branch, _Holdings())
        source = self._holdings.get(parent) if parent is not None else None
        if source is not None and source is not holdings:
            holdings.inherited |= source.inherited | set(source.own.values())
        if before != (False, holdings.inherited):
            self._save()

    def revoke(self, branch: str) -> None:
        """Accept nothing of that branch any more. What descendants inherited stays theirs."""
        self._holdings.pop(branch, None)
        self._revoked.add(branch)
        self._save()

    def _load(self, file: Path) -> None:
        try:
            kept = json.loads(file.read_text())
            origins = {
                word: Origin(branch=branch, name=name)
                for word, (branch, name) in kept["origins"].items()
            }
            holdings = {
                branch: _Holdings(own=own, inherited=set(inherited))
                for branch, (own, inherited) in kept["holdings"].items()
            }
            revoked = set(kept["revoked"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            # Nothing is lost but what machines hold of old: they are told to ask anew.
            log.warning("placeholders could not be read from %s: %s", file, error)
        else:
            self._origins, self._holdings, self._revoked = origins, holdings, revoked

    def _save(self) -> None:
        if self._file is None:
            return
        kept = {
            "origins": {word: (of.branch, of.name) for word, of in self._origins.items()},
            "holdings": {
                branch: (each.own, sorted(each.inherited))
                for branch, each in self._holdings.items()
            },
            "revoked": sorted(self._revoked),
        }
        written = self._file.with_suffix(".part")
        try:
            written.touch(mode=0o600)
            written.write_text(json.dumps(kept))
            written.replace(self._file)
        except OSError as error:
            log.warning("placeholders could not be kept in %s: %s", self._file, error)
            with contextlib.suppress(OSError):
                written.unlink(missing_ok=True)

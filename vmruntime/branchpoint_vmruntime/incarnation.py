"""One waking of a machine: who it is, and what the guest says at rest and on waking."""

import itertools
import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard, cast

from branchpoint_vmruntime.branch_seam import WakeReason

_NAME_OF_PHASE = re.compile("[a-z][a-z-]{0,31}")
_MOST_PHASES = 8
_LONGEST_PHASE_MS = 86_400_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who an incarnation is.

    Readable in the guest. `token` is worth nothing outside this session.
    """

    session: str
    branch: str
    index: int
    incarnation: str
    token: str
    reason: WakeReason = WakeReason.START

    @classmethod
    def new(
        cls, *, session: str, branch: str, index: int, reason: WakeReason = WakeReason.START
    ) -> "Identity":
        """A fresh incarnation of a branch."""
        return cls(
            session=session,
            branch=branch,
            index=index,
            incarnation=secrets.token_hex(8),
            token=secrets.token_urlsafe(24),
            reason=reason,
        )

    def as_json(self) -> str:
        """As processes in the guest read it."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})


def _is_name(told: object) -> TypeGuard[str]:
    return isinstance(told, str) and _NAME_OF_PHASE.fullmatch(told) is not None


def _is_length(told: object) -> TypeGuard[float]:
    if not isinstance(told, int | float) or isinstance(told, bool):
        return False
    return 0 <= told < _LONGEST_PHASE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """A guest at rest: nothing of the user's runs, no byte is under way."""

    phases_ms: dict[str, float]

    @classmethod
    def from_answer(cls, told: object) -> "Frozen":
        """What the guest tells of how long it took, as far as that is lengths of time by names.

        It is put on record and shown in pages; a guest is the user's to break.

        >>> Frozen.from_answer({"freeze": 3.1, "<b>": 1, "drain": "long", "flush": 1e400}).phases_ms
        {'freeze': 3.1}
        """
        fields = cast("dict[object, object]", told) if isinstance(told, dict) else {}
        phases = list(fields.items())[:_MOST_PHASES]
        return cls(phases_ms={k: round(v, 3) for k, v in phases if _is_name(k) and _is_length(v)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Awake:
    """What a guest said on waking.

    `reseeded` names the generators of user space that were made new.
    """

    nonce: str
    reseeded: tuple[str, ...]
    phases_ms: dict[str, float]

    @classmethod
    def from_answer(cls, fields: Sequence[str]) -> "Awake":
        """What the guest's answer means: nonce, names, and four instants in microseconds.

        >>> Awake.from_answer(["c0ffee", "random,numpy", "0", "8000", "20000", "50000"]).phases_ms
        {'clock': 8.0, 'renew': 12.0, 'kernel': 30.0}
        """
        nonce, names, *instants = fields
        at = [int(instant) / 1000 for instant in instants]
        lengths = (later - earlier for earlier, later in itertools.pairwise(at))
        names_of_phases: tuple[str, ...] = ("clock", "renew", "kernel")
        phases = {k: round(v, 3) for k, v in zip(names_of_phases, lengths, strict=True)}
        return cls(nonce=nonce, reseeded=tuple(names.split(",")) if names else (), phases_ms=phases)


def host_name(branch: str) -> str:
    """A host name for a branch: letters, digits and hyphens, as RFC 1123 has it.

    >>> host_name("ridge_2"), host_name("Überblick"), host_name("...")
    ('ridge-2', 'berblick', 'machine')
    """
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in branch.lower())
    return plain.strip("-")[:63].rstrip("-") or "machine"

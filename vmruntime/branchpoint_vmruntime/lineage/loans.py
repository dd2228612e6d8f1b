"""The part of the lineage store that joins sessions: what of one stands on another's checkpoints.

A branch that is lent carries on in a session of its own, whose fresh machines start at its head. Of
a session that is removed, what others stand on stays: its row, which no key finds any more.
"""

import sqlite3
from collections.abc import Iterable
from typing import Any

from branchpoint_vmruntime.database import Records
from branchpoint_vmruntime.errors import NameTakenError, UsageError
from branchpoint_vmruntime.lineage import (
    BranchRecord,
    BranchState,
    Checkpoint,
    CheckpointId,
    SessionId,
    SessionRecord,
)
from branchpoint_vmruntime.lineage.rows import (
    branch_from_row,
    branch_to_row,
    checkpoint_from_row,
    session_from_row,
    session_to_row,
)

# What of session :id others stand on: what they have taken after it, where their branches are or
# came from, and where their fresh machines start.
_STOOD_ON = """
SELECT checkpoints.id AS checkpoint, others.key AS key FROM checkpoints JOIN (
    SELECT parent AS id, session FROM checkpoints
    UNION SELECT head, session FROM branches WHERE state != :dropped
    UNION SELECT origin, session FROM branches WHERE state != :dropped
    UNION SELECT start, id FROM sessions
) AS needed ON needed.id = checkpoints.id JOIN sessions AS others ON others.id = needed.session
WHERE checkpoints.session = :id AND others.id != :id ORDER BY others.number
"""
# What session :id has saved that nobody needs but itself: no branch, no start, no checkpoint of
# another, nor what is pinned, if :pinned, stands on it. Children first.
_NEEDLESS = """
WITH RECURSIVE needed (id) AS (
    SELECT parent FROM checkpoints WHERE session IS NOT :id AND parent IS NOT NULL
    UNION SELECT head FROM branches WHERE state != :dropped
    UNION SELECT origin FROM branches WHERE state != :dropped
    UNION SELECT start FROM sessions WHERE start IS NOT NULL
    UNION SELECT checkpoint FROM pins WHERE :pinned
    UNION SELECT checkpoints.parent FROM checkpoints JOIN needed USING (id)
        WHERE checkpoints.parent IS NOT NULL
)
SELECT * FROM checkpoints WHERE session = :id AND id NOT IN (SELECT id FROM needed)
ORDER BY number DESC
"""
# No key that a user chooses is this: an id is made by chance.
IS_REMOVED = "key = 'removed:' || id"


# Which sessions have a past in common, by what they have saved, stand on or start from.
_JOINED = """
SELECT ours.session AS one, theirs.session AS other FROM (
    SELECT parent AS id, session FROM checkpoints
    UNION SELECT head, session FROM branches
    UNION SELECT start, id FROM sessions
) AS ours JOIN checkpoints AS theirs USING (id)
WHERE theirs.session != ours.session
"""


class Loans(Records):
    """What `Journal` knows of lent branches. Each method is one transaction."""

    def lend(self, branch: BranchRecord, to: SessionRecord) -> None:
        """Put a branch on record as lent to a session, and that session with where it starts.

        The session may be there already. NameTakenError if another has its key.
        """
        with self._database.transaction(lasting=True):
            row = session_to_row(to)
            known = self._rows("SELECT id FROM sessions WHERE :id = id OR :key = key", **row)
            # One that is there has the key that it has now, whatever it was looked up by.
            if known and to.id not in {it["id"] for it in known}:
                raise NameTakenError(f"there is already a session {to.key!r}")
            news = "start = excluded.start, current = excluded.current"
            self._database.insert("sessions", row, f"ON CONFLICT (id) DO UPDATE SET {news}")
            lent = branch_to_row(branch)
            set_to = ", ".join(f"{name} = excluded.{name}" for name in lent)
            rest = f"ON CONFLICT (session, name) DO UPDATE SET {set_to}"
            self._database.insert("branches", lent, rest)

    def loan_of(self, session: SessionId) -> BranchRecord | None:
        """The branch that carries on in that session, if one was lent to it."""
        rows = self._rows(
            "SELECT * FROM branches WHERE lent_to = :session AND state = :lent",
            session=session,
            lent=BranchState.LENT.value,
        )
        return branch_from_row(rows[0]) if rows else None

    def lent(self) -> list[BranchRecord]:
        """The branches of all sessions that are lent."""
        rows = self._rows(
            "SELECT * FROM branches WHERE state = :lent ORDER BY number",
            lent=BranchState.LENT.value,
        )
        return [branch_from_row(row) for row in rows]

    def branches_on(self, head: CheckpointId) -> list[BranchRecord]:
        """The branches, of all sessions, that stand on a checkpoint."""
        rows = self._rows(
            "SELECT * FROM branches WHERE head = :head AND state != :dropped ORDER BY number",
            head=head,
            dropped=BranchState.DROPPED.value,
        )
        return [branch_from_row(row) for row in rows]

    def stood_on(self, session: SessionId) -> dict[CheckpointId, str]:
        """The session's checkpoints that others stand on, with the key of one that does."""
        rows = self._rows(_STOOD_ON, id=session, dropped=BranchState.DROPPED.value)
        return {CheckpointId(row["checkpoint"]): row["key"] for row in reversed(rows)}

    def kin(self, session: SessionId) -> set[SessionId]:
        """The sessions that have a past in common with one, as lenders and borrowers have.

        It is none of them itself.
        """
        pairs = [(row["one"], row["other"]) for row in self._rows(_JOINED)]
        found, news = {session}, {session}
        while news:
            met = {SessionId(b) for a, b in (*pairs, *(it[::-1] for it in pairs)) if a in news}
            news = met - found
            found |= news
        return found - {session}

    def remove_session(self, id: SessionId) -> list[Checkpoint]:  # noqa: A002
        """Forget a session, its branches and what was done; the checkpoints that went.

        What others stand on of it stays until nobody does: see `forget_needless`. What was saved by
        sessions removed earlier goes too if it was this one that needed it.
        """
        with self._database.transaction(lasting=False):
            for table in ("operations", "branches"):
                self._database.execute(f"DELETE FROM {table} WHERE session = :id", id=id)
            self._database.execute(
                "UPDATE sessions SET key = 'removed:' || id, start = NULL, current = NULL"
                " WHERE id = :id",
                id=id,
            )
            gone = self._forget(id, pinned=False)
            gone += self._forget_needless()
        return gone

    def removed_sessions(self) -> list[SessionRecord]:
        """The sessions that were removed and of which others need something."""
        rows = self._rows(f"SELECT * FROM sessions WHERE {IS_REMOVED} ORDER BY number")
        return [session_from_row(row) for row in rows]

    def forget_needless(self) -> list[Checkpoint]:
        """Forget what was kept of removed sessions and nobody needs any more; which it was."""
        if not self.removed_sessions():
            return []
        with self._database.transaction(lasting=False):
            return self._forget_needless()

    def _forget_needless(self) -> list[Checkpoint]:
        gone: list[Checkpoint] = []
        going = True
        while going:
            left = self.removed_sessions()
            found = [each for it in left for each in self._forget(it.id, pinned=True)]
            gone += found
            # What one of them no longer has may have stood on what another has.
            going = bool(found)
        return gone

    def _forget(self, id: SessionId, *, pinned: bool) -> list[Checkpoint]:  # noqa: A002
        """Forget what nobody needs of a removed session, and all of it if nothing is left."""
        dropped = BranchState.DROPPED.value
        rows = self._rows(_NEEDLESS, id=id, dropped=dropped, pinned=pinned)
        for row in rows:
            self._database.execute("DELETE FROM checkpoints WHERE id = :id", id=row["id"])
        if not self._rows("SELECT 1 FROM checkpoints WHERE session = :id LIMIT 1", id=id):
            self._database.execute("DELETE FROM sessions WHERE id = :id", id=id)
        return [checkpoint_from_row(row) for row in rows]

    def _require_no_start(self, checkpoint: CheckpointId) -> None:
        """UsageError if the fresh machines of a session start from a checkpoint."""
        keys = self._keys("SELECT key FROM sessions WHERE start = :id", id=checkpoint)
        if keys:
            names = ", ".join(map(repr, keys))
            raise UsageError(
                f"fresh machines start from checkpoint {checkpoint!r}, those of {names}",
                hint="remove that session first, or `%image reset` there",
            )

    def _keys(self, query: str, **values: Any) -> Iterable[str]:
        return [row["key"] for row in self._rows(query, **values)]

    def _rows(self, query: str, **values: Any) -> list[sqlite3.Row]:
        return self._database.rows(query, **values)

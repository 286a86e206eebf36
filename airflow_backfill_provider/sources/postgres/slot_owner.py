"""
Whose a replication slot is: each slot belongs to one change log, and so to the jobs that name it.

The name of a job's own slot follows from the job's name, so two jobs of one name on one database have the same. The
second one would consume the changes of the first. So a slot that somebody else made is refused, before anything is
touched. The evidence for a slot is, in this order:

1. The change log has the same origin. It is created before the slot.
2. The comment of the publication names the slot and its change log. It is written together with the publication,
   if this package creates that.

PostgreSQL has no comments on slots themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from psycopg import errors, sql

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection

_COMMENT = "airflow-backfill: replication slot {slot} of the change log {log}"
_PATTERN = re.compile(r"^airflow-backfill: replication slot (?P<slot>\S+) of the change log (?P<log>.+)$")

_FOUND = """
SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = %s),
       (SELECT obj_description(oid, 'pg_publication') FROM pg_publication WHERE pubname = %s)
"""


class Claim(Enum):
    """Whose something is, as far as the database says."""

    NOBODY = "nobody"
    OURS = "ours"
    OTHERS = "others"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SlotOwner:
    """
    The change log that a slot belongs to.

    :param slot: the name of the slot.
    :param publication: the name of its publication.
    :param change_log: the location of the change log.
    """

    slot: str
    publication: str
    change_log: str

    @property
    def comment(self) -> str:
        """The comment of a publication that is created for the slot."""
        return _COMMENT.format(slot=self.slot, log=self.change_log)

    def claim(self, connection: Connection, *, has_log: bool) -> Claim:
        """
        Return whose the slot is; that of its publication, if there is no slot.

        :param has_log: whether the change log exists, and is of this slot.
        """
        exists, comment = self._found(connection)
        if has_log and exists:
            return Claim.OURS
        if log := _log_named_in(comment, self.slot):
            return Claim.OURS if log == self.change_log else Claim.OTHERS
        return Claim.UNKNOWN if exists else Claim.NOBODY

    def require_not_of_others(self, connection: Connection, *, has_log: bool, is_own_name: bool) -> None:
        """
        Refuse a slot that another job made.

        :param is_own_name: whether the name is the one that the job gets by default. Under another name, a slot may
            have been made for the job.
        :raises UpstreamError: with what to do.
        """
        claim = self.claim(connection, has_log=has_log)
        if claim is Claim.OTHERS:
            raise UpstreamError(
                f"the replication slot {self.slot} belongs to the job with the change log {self._other(connection)}, "
                f"not to the one with {self.change_log}; give this job another name, or a slot of its own in "
                "upstream.postgres.slot, or cancel the other job first"
            )
        if claim is Claim.UNKNOWN and is_own_name:
            raise UpstreamError(
                f"the replication slot {self.slot} exists, and the job with the change log {self.change_log} did not "
                "make it; give this job another name, or a slot of its own in upstream.postgres.slot. If no job reads "
                f"the slot any more, drop it: SELECT pg_drop_replication_slot('{self.slot}')"
            )

    def note(self, connection: Connection) -> None:
        """Write the comment on the publication, unless it has one, or the login does not own it."""
        _, comment = self._found(connection)
        if comment:
            return
        statement = sql.SQL("COMMENT ON PUBLICATION {} IS {}").format(sql.Identifier(self.publication), self.comment)
        try:
            with connection.transaction():
                connection.execute(statement)
        except (errors.InsufficientPrivilege, errors.UndefinedObject):
            # The publication was made for the job by somebody else. Then the change log alone says whose the slot is.
            return

    def _found(self, connection: Connection) -> tuple[bool, str]:
        exists, comment = connection.execute(_FOUND, [self.slot, self.publication]).fetchall()[0]
        return bool(exists), comment or ""

    def _other(self, connection: Connection) -> str:
        return _log_named_in(self._found(connection)[1], self.slot)


def _log_named_in(comment: str, slot: str) -> str:
    """Return the change log that a comment names as that of a slot; an empty text if it names none."""
    found = _PATTERN.match(comment)
    return found["log"] if found is not None and found["slot"] == slot else ""

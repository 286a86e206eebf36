"""
Makes what reading a table's changes needs: a publication, a replication slot and a change log; and removes it again.

The order is that of the evidence. The change log comes first, in the job's own folder, so that a folder that cannot be
written leaves nothing in the database. The slot comes last, because the server keeps its log from then on.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import suppress

from airflow_backfill_provider.core.errors import (
    ChangeFeedGapError,
    ConcurrentUpdateError,
    DatabaseRefusedError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.sources.postgres.published import Published
from airflow_backfill_provider.sources.postgres.rights import NO_LOGICAL_LOG, missing_rights
from airflow_backfill_provider.sources.postgres.slot_owner import Claim, SlotOwner
from airflow_backfill_provider.sources.postgres.table import PostgresTable
from airflow_backfill_provider.sources.shared.postgresql import catalog
from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection, DescribedTable
from airflow_backfill_provider.sources.shared.postgresql.key_values import require_usual_keys


class Beginning:
    """
    The beginning of a job on a table.

    :param table: the table.
    """

    def __init__(self, table: PostgresTable) -> None:
        self._table = table
        self._slot, self._log = table.slot, table.log
        self._owner = SlotOwner(table.slot.name, table.slot.publication, table.log.location)
        self._made_slot = False

    def missing_rights(self) -> Sequence[str]:
        """
        Return what the login or the server lacks so that the job can be created, each with what to do.

        :raises DatabaseUnavailableError: if the database does not answer.
        """
        with self._table.database.session() as connection:
            return self._missing_rights(connection, self._table.describe(connection))

    def require_can(self, job: str) -> None:
        """Refuse what :meth:`make` would refuse, without writing anything."""
        with self._table.database.session() as connection:
            origin = self._checked_origin(connection)
            table = self._table.describe(connection)
            self._require_not_of_others(connection, job, origin)
            self._slot.require_publishable(connection, table)

    def make(self, job: str) -> int:
        """
        Make what does not exist; see :meth:`~airflow_backfill_provider.sources.base.Source.begin`.

        :returns: an LSN; changes of transactions that are committed later are complete.
        """
        with self._table.database.session() as connection:
            origin = self._checked_origin(connection)
            table = self._table.describe(connection)
            self._require_not_of_others(connection, job, origin)
            self._require_can_make(connection, table)
            try:
                return self._make(connection, origin, table)
            except (UpstreamReplacedError, ChangeFeedGapError):
                if not self._table.upstream.has_own_slot(job):
                    raise
                # The log cannot be continued, and no other job reads it.
                self._slot.drop(connection)
                self._log.drop()
                return self._make(connection, origin, table)

    def exists(self) -> bool:
        """Return whether the slot and the change log exist."""
        with self._table.database.session() as connection:
            return self._slot.exists(connection) and self._log.exists()

    def remove(self, job: str) -> bool:
        """
        Remove what was made for a job that was not created after all.

        Of a slot that jobs share, only what this object made itself; never what another job made.

        :returns: whether there was something to remove.
        """
        is_own_name = self._table.upstream.has_own_slot(job)
        with self._table.database.session() as connection:
            has_log = self._has_log(self._table.origin(catalog.server(connection)))
            is_ours = is_own_name and self._owner.claim(connection, has_log=has_log) is Claim.OURS
            if self._made_slot or is_ours:
                self._slot.drop(connection)
        drops_log = has_log and (self._made_slot or is_own_name)
        if drops_log:
            # In this order: the log is the evidence for the slot.
            self._log.drop_with_empty_folders()
        return self._made_slot or is_ours or drops_log

    def end(self) -> None:
        """Drop the slot of a job that ends, unless the publication says that it belongs to another one."""
        with self._table.database.session() as connection:
            if self._owner.claim(connection, has_log=self._log.is_made()) is not Claim.OTHERS:
                self._slot.drop(connection)

    def _missing_rights(self, connection: Connection, table: DescribedTable) -> list[str]:
        try:
            is_published = self._slot.require_publishable(connection, table)
        except DatabaseRefusedError as error:
            return [str(error)]
        slot, publication = self._slot.name, self._slot.publication
        return list(
            missing_rights(connection, slot=slot, publication=publication, table=table, is_published=is_published)
        )

    def _require_can_make(self, connection: Connection, table: DescribedTable) -> None:
        """
        Refuse what would leave something behind if it were found out later.

        :raises UnsupportedValueError: if a row's key cannot be ordered.
        :raises DatabaseRefusedError: if the login or the server lacks something; with all of it.
        """
        require_usual_keys(connection, self._table.location, table, self._table.key)
        if missing := self._missing_rights(connection, table):
            raise DatabaseRefusedError(f"{self._table.location}: {'; and '.join(missing)}")

    def _make(self, connection: Connection, origin: str, table: DescribedTable) -> int:
        made_log = self._log.prepare(origin)
        self._slot.publish(connection, table, self._owner)
        published = Published.now(connection, self._slot.publication)
        try:
            self._made_slot = self._slot.ensure(connection, self._owner) or self._made_slot
        except ConcurrentUpdateError:
            if made_log:
                # It would be taken as evidence that the slot is this job's.
                self._log.drop()
            raise
        begin, now = self._slot.begin(connection), dt.datetime.now(dt.UTC)
        self._log.create(origin, begin, at=now)
        # Another job that shares the slot is refused then.
        self._log.skip_to(
            begin,
            if_before=self._slot.status(connection).confirmed,
            why=f"changes before the replication slot {self._slot.name} was created again",
            at=now,
            published=published.identities,
        )
        # If another process lands at the same time, it checks the same.
        with suppress(ConcurrentUpdateError):
            self._table.landing.land()
        if Published.now(connection, self._slot.publication).differs_from(published, str(table.oid)):
            raise ConcurrentUpdateError(
                f"publication {self._slot.publication} was changed while the job was created; try again"
            )
        return begin

    def _checked_origin(self, connection: Connection) -> str:
        """Return what the change log is of, if the server writes what it needs."""
        server = catalog.server(connection)
        if server.wal_level != "logical":
            raise DatabaseRefusedError(f"{self._table.location}: {NO_LOGICAL_LOG}")
        return self._table.origin(server)

    def _require_not_of_others(self, connection: Connection, job: str, origin: str) -> None:
        self._owner.require_not_of_others(
            connection, has_log=self._has_log(origin), is_own_name=self._table.upstream.has_own_slot(job)
        )

    def _has_log(self, origin: str) -> bool:
        """Return whether the change log was made for this slot."""
        if not self._log.is_made():
            return False
        try:
            self._log.require_origin(origin)
        except UpstreamReplacedError:
            return False
        return True

"""A PostgreSQL table with what its changes come through: its database, its slot and its change log."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
from airflow_backfill_provider.core.scan.keys import KeyOrder
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.postgres.definition import PostgresUpstream
from airflow_backfill_provider.sources.postgres.description import PostgresDescription
from airflow_backfill_provider.sources.postgres.landing import Landing
from airflow_backfill_provider.sources.postgres.slot import ReplicationSlot
from airflow_backfill_provider.sources.shared.change_log.table import ChangeLog
from airflow_backfill_provider.sources.shared.postgresql import catalog
from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection, DescribedTable
from airflow_backfill_provider.sources.shared.postgresql.column_identity import column_identities
from airflow_backfill_provider.sources.shared.postgresql.database import PrimaryDatabase
from airflow_backfill_provider.sources.shared.postgresql.jdbc_address import require_host


class PostgresTable:
    """
    A table, asked on demand. Each part of the source asks it: what begins, lands, reads and watches.

    :param upstream: the definition, with the defaults of a job.
    :param storage_options: options of the object store of the change log, as deltalake takes them.
    :param created: the table with the columns that a job uses, as of the job's creation; ``None`` without a job.
    """

    def __init__(
        self,
        upstream: PostgresUpstream,
        storage_options: Mapping[str, str] | None = None,
        created: ResolvedUpstream | None = None,
    ) -> None:
        self.upstream = upstream
        self.created = created
        self.storage_options = storage_options
        self.database = PrimaryDatabase(upstream.connection)
        self.slot = ReplicationSlot(upstream.slot, upstream.publication)
        self.log = ChangeLog(upstream.change_log, storage_options)

    @property
    def location(self) -> str:
        """The connection and the table."""
        return self.upstream.location

    @property
    def key(self) -> list[str]:
        """The key columns."""
        return [column.column for column in self.upstream.key]

    @property
    def key_order(self) -> KeyOrder:
        """The key's columns, with the types that they have now."""
        return self.at().key_order(self.upstream.key)

    def at(self, offset: Offset | None = None) -> PostgresDescription:
        """
        Describe the table as it is now; the changes of a window are checked by the source.

        :raises UpstreamNotFoundError: if there is no such table, or it cannot be read.
        """
        with self.database.session() as connection:
            # Rows are read by Spark, which does not reach every server that libpq reaches.
            require_host(self.database.connection_id, connection.info.host)
            server = catalog.server(connection)
            table = self.describe(connection)
            identities = column_identities(connection, table.oid)
            unpublished = self.slot.unpublished(connection, table)
        return PostgresDescription.of(
            self.location,
            offset if offset is not None else self.newest_or_beginning(),
            table_id=table_id(server, table),
            table=table,
            encoding=server.encoding,
            upstream=self.upstream,
            identities=identities,
            unpublished=unpublished,
        )

    @cached_property
    def size(self) -> tuple[int, int]:
        """The server's estimate of the table's rows, and of its bytes."""
        with self.database.session() as connection:
            return catalog.size_of(connection, self.describe(connection).oid)

    @property
    def landing(self) -> Landing:
        """Lands changes of the slot."""
        return Landing(
            self.database,
            self.slot,
            self.log,
            self._origin_now,
            lambda connection: self.describe(connection).oid,
            self.key,
        )

    @cached_property
    def log_table(self) -> str:
        """The table's id in the change log."""
        with self.database.session() as connection:
            return str(self.describe(connection).oid)

    def describe(self, connection: Connection) -> DescribedTable:
        """Describe the table in an open session."""
        return catalog.describe_table(connection, self.upstream.table)

    def newest_or_beginning(self) -> Offset:
        """Return the offset through which changes are landed; offset 0 before the change log is created."""
        return Offset(self.log.queries.landed_through) if self.log.exists() else Offset(0)

    def _origin_now(self, connection: Connection) -> str:
        return self.origin(catalog.server(connection))

    def origin(self, server: catalog.Server) -> str:
        """Return what a change log of the slot is of."""
        return f"postgresql system {server.system}, database {server.database}, slot {self.slot.name}"


def table_id(server: catalog.Server, table: DescribedTable) -> str:
    """Return the table's id, which a table that is created again does not get again."""
    return f"{server.system}/{server.database}/{table.oid}"

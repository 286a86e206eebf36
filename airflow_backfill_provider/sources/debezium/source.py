"""A Delta table of Debezium's events as a job's upstream, without a JVM."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from functools import cached_property

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
from airflow_backfill_provider.core.scan.keys import KeyOrder
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from airflow_backfill_provider.sources.debezium.definition import DebeziumUpstream
from airflow_backfill_provider.sources.debezium.description import DebeziumDescription
from airflow_backfill_provider.sources.debezium.layout import layout_of
from airflow_backfill_provider.sources.debezium.present import PresentTable
from airflow_backfill_provider.sources.debezium.snapshot_table import SnapshotTable
from airflow_backfill_provider.sources.event_table.source import EVENTS, EventTableSource, path_value
from airflow_backfill_provider.sources.present_rows import PresentRows
from airflow_backfill_provider.sources.shared.postgresql.transactions import UnseenTransactions


class DebeziumSource(EventTableSource):
    """
    A table of events. An offset is a version of it.

    :param upstream: the definition.
    :param storage_options: options of the object store, as deltalake takes them.
    :param created: the columns that a job uses, as of the job's creation; ``None`` without a job.
    """

    def __init__(
        self,
        upstream: DebeziumUpstream,
        storage_options: Mapping[str, str] | None = None,
        created: ResolvedUpstream | None = None,
    ) -> None:
        super().__init__(upstream, upstream.path, storage_options)
        self.upstream = upstream
        self.created = created

    def as_created(self, upstream: ResolvedUpstream) -> DebeziumSource:
        """Return the table for a job, whose reader reads only the columns that the job uses of the database's rows."""
        return DebeziumSource(self.upstream, self.history.storage_options, upstream)

    @cached_property
    def snapshot(self) -> SnapshotTable | None:
        """The database's table, if its present rows are read."""
        return None if self.upstream.snapshot is None else SnapshotTable(self.upstream.snapshot)

    @property
    def serves_several_epochs(self) -> bool:
        """Unless it describes the database's table: that may change between epochs."""
        return self.upstream.snapshot is None

    def begin(self, job: str) -> HistoryPoint:
        """Return the newest version: present rows need only the changes since."""
        del job
        return self.point(self.latest())

    def at(self, offset: Offset | None = None) -> DebeziumDescription:
        """
        Describe the rows that the events are about, as of a version.

        :raises UpstreamNotFoundError: if there is no readable Delta table or no such version.
        :raises UpstreamError: if it has no events.
        """
        events = super().at(offset)
        layout = layout_of(self.location, events.types)
        return DebeziumDescription(
            location=events.location,
            offset=events.offset,
            table_id=events.table_id,
            types=layout.types,
            view=events.view,
            change_data_feed=events.change_data_feed,
            layout=layout,
            key=self.key,
            snapshot=self.snapshot,
        )

    def row_types(self, types: Mapping[str, str]) -> Mapping[str, str]:
        """Return the columns of the database's table."""
        return layout_of(self.location, types).types

    def key_value(self, offset: Offset, name: str) -> str:
        """Return the key column of the row after a change, or else before it."""
        layout = self.at(offset).layout
        new = path_value((*layout.new, name))
        return new if layout.old is None else f"coalesce({new}, {path_value((*layout.old, name))})"

    def row_count(self, offset: Offset) -> int:
        """Return the server's estimate of the table's rows; without a database, the number of events."""
        return super().row_count(offset) if self.snapshot is None else self.snapshot.row_count

    @property
    def may_be_cleared(self) -> bool:
        """An event may say that the database's table was truncated."""
        return True

    @property
    def key_order(self) -> KeyOrder:
        """The key's columns, with their types in the newest events."""
        return self.at().key_order(self.upstream.key)

    @property
    def present(self) -> PresentRows | None:
        """The present rows of the database's table, if the events lack some."""
        if self.snapshot is None or self.upstream.snapshot is None:
            return None
        return PresentTable(self, self.snapshot, dt.timedelta(seconds=self.upstream.snapshot.events_within))

    def transactions_among(self, offset: Offset, unseen: UnseenTransactions) -> frozenset[int]:
        """Return which of some transactions of the database have events at a version."""
        path = self.at(offset).layout.transaction
        if path is None:
            return frozenset()
        found: set[int] = set()
        for batch in self.select(offset, f"SELECT {path_value(path)} FROM {EVENTS}"):
            found.update(unseen.among(batch.column(0)))
        return frozenset(found)

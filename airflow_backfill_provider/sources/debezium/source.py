"""
A Delta table of Debezium's events as a job's upstream, without a JVM.

Everything about the history is the same as for any Delta table: an offset is a version, and the events of a window are
the rows that its versions appended.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import QueryBuilder

from airflow_backfill_provider.core.errors import UpstreamSchemaChangedError
from airflow_backfill_provider.core.file_statistics import FileStatistics, KeyIndex
from airflow_backfill_provider.core.keys import KeyOrder, KeyRange, Position
from airflow_backfill_provider.core.offset import HistoryPoint, Offset
from airflow_backfill_provider.core.settings import JobSettings, ResolvedUpstream
from airflow_backfill_provider.lake.key_index import arrow_type, keys_within, nth_key
from airflow_backfill_provider.lake.schemas import TableSchema
from airflow_backfill_provider.lake.storage import storage_errors
from airflow_backfill_provider.sources.base import PresentRows
from airflow_backfill_provider.sources.debezium import DebeziumUpstream
from airflow_backfill_provider.sources.debezium.description import DebeziumDescription
from airflow_backfill_provider.sources.debezium.layout import EventLayout, Path, layout_of
from airflow_backfill_provider.sources.debezium.present import PresentTable
from airflow_backfill_provider.sources.debezium.snapshot_table import SnapshotTable
from airflow_backfill_provider.sources.delta import windows
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import version_of
from airflow_backfill_provider.sources.postgres.transactions import UnseenTransactions
from airflow_backfill_provider.sources.reader import SourceReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVENTS = "events"
"""The name of the table of events in a query of DataFusion."""


class DebeziumSource(DeltaSource):
    """
    A table of events. An offset is a version of it.

    :param upstream: the definition.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, upstream: DebeziumUpstream, storage_options: Mapping[str, str] | None = None) -> None:
        super().__init__(upstream.path, storage_options)
        self.upstream = upstream

    @cached_property
    def snapshot(self) -> SnapshotTable | None:
        """The database's table, if its present rows are read."""
        return None if self.upstream.snapshot is None else SnapshotTable(self.upstream.snapshot)

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
            change_data_feed=events.change_data_feed,
            unfinished=events.unfinished,
            layout=layout,
            key=self.key,
            snapshot=self.snapshot,
        )

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns."""
        return tuple(column.column for column in self.upstream.key)

    def require_used_columns(self, after: Offset, up_to: Offset, upstream: ResolvedUpstream) -> None:
        """
        Refuse a window ``(after, up_to]`` in which the events had no used column, or with another type.

        :raises UpstreamSchemaChangedError: with the columns and the version.
        """
        for version, schema in windows.schemas(self.log, version_of(after), version_of(up_to)):
            if schema is None:
                continue
            types = layout_of(self.location, schema.types).types
            if problems := TableSchema(types, {}).differences_from(upstream):
                raise UpstreamSchemaChangedError(
                    f"the events of {self.location} do not have the columns that the job uses as of version {version}: "
                    f"{'; '.join(problems)}; adapt the job's query and rebuild it"
                )

    # ------------------------------------------------------------------------------------------- rows and keys

    @property
    def reads_whole(self) -> bool:
        """The last event of a key may lie in any file."""
        return True

    def row_count(self, offset: Offset) -> int:
        """Return the server's estimate of the table's rows; without a database, the number of events."""
        return super().row_count(offset) if self.snapshot is None else self.snapshot.row_count

    def blocks(self, offset: Offset, order: KeyOrder) -> Sequence[FileStatistics]:
        """Return all events as one block; its keys are not known without reading it."""
        del order
        size = self.files_at(offset).size()
        return [FileStatistics(path=self.location, row_count=self.row_count(offset), is_exact=False, size=size)]

    def blocks_of_job(self, offset: Offset, settings: JobSettings) -> tuple[Sequence[FileStatistics], KeyIndex]:
        """Return all events as one block, and an index that reads their keys."""
        return self.blocks(offset, settings.key_order), _EventKeys(self, offset, settings.key_order)

    def window_changes(self, settings: JobSettings, after: Offset, up_to: Offset) -> None:
        """Return ``None``: only Spark nets events."""
        del settings, after, up_to

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
        # Without a condition, no file is skipped because of its statistics.
        for batch in self._select(offset, f"SELECT {_value(path)} FROM {_EVENTS}"):
            found.update(unseen.among(batch.column(0)))
        return frozenset(found)

    def keys(self, offset: Offset, order: KeyOrder) -> pa.Table:
        """Return the distinct keys that have events at a version, of rows that may be deleted."""
        layout = self.at(offset).layout
        columns = ", ".join(f"{_key_value(layout, name)} AS column_{number}" for number, name in enumerate(order.names))
        found = self._select(offset, f"SELECT DISTINCT {columns} FROM {_EVENTS}").read_all()
        return pa.table(
            {field.name: found.column(number).cast(arrow_type(field)) for number, field in enumerate(order.fields)}
        )

    def _select(self, offset: Offset, query: str) -> pa.RecordBatchReader:
        with storage_errors(self.location):
            found = QueryBuilder().register(_EVENTS, self.files_at(offset).table).execute(query)
            return pa.RecordBatchReader.from_stream(found)

    # --------------------------------------------------------------------------------------------------- Spark

    def reader(self, spark: SparkSession) -> SourceReader:
        """Return the reader of events, and of the database's present rows."""
        from airflow_backfill_provider.sources.debezium.reader import DebeziumReader

        return DebeziumReader(spark, self)


class _EventKeys(KeyIndex):
    """
    The keys of all events at a version, read at most once.

    It also counts the keys of deleted rows, which can only make a chunk smaller than its rate limit.
    """

    def __init__(self, source: DebeziumSource, offset: Offset, order: KeyOrder) -> None:
        self._source = source
        self._offset = offset
        self._order = order

    @cached_property
    def _keys(self) -> pa.Table:
        return self._source.keys(self._offset, self._order)

    def count(self, file: FileStatistics, within: KeyRange) -> int:
        """Return the number of keys in a range."""
        del file
        return int(keys_within(self._keys, self._order, within).num_rows)

    def nth(self, files: Sequence[FileStatistics], within: KeyRange, n: int) -> Position | None:
        """Return the n-th smallest (from 1) of the keys in a range."""
        del files
        return nth_key([self._keys], self._order, within, n)


def _key_value(layout: EventLayout, name: str) -> str:
    new = _value((*layout.new, name))
    return new if layout.old is None else f"coalesce({new}, {_value((*layout.old, name))})"


def _value(path: Path) -> str:
    """Return a path in DataFusion's SQL."""
    column, *fields = path
    quoted = [field.replace("'", "''") for field in fields]
    return '"' + column.replace('"', '""') + '"' + "".join(f"['{field}']" for field in quoted)

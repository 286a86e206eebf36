"""
A Delta table of events as a job's upstream, without a JVM.

The history is that of any Delta table: an offset is a version, and the events of a window are the rows that its
versions appended. The table's own rows are events, so nothing else about it is as for a Delta table.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property

import pyarrow as pa
from deltalake import QueryBuilder

from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream
from airflow_backfill_provider.core.errors import UpstreamSchemaChangedError
from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics, KeyIndex
from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange, Position
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.lake.files.key_index import arrow_type, keys_within, nth_key
from airflow_backfill_provider.lake.log.schemas import TableSchema
from airflow_backfill_provider.lake.store.storage import storage_errors
from airflow_backfill_provider.sources.delta import windows
from airflow_backfill_provider.sources.delta.history import DeltaHistory
from airflow_backfill_provider.sources.delta.versioned import VersionedSource
from airflow_backfill_provider.sources.delta.versions import version_of

EVENTS = "events"
"""The name of the table of events in a query of DataFusion."""


class EventTableSource(VersionedSource):
    """
    A table of events. An offset is a version of it.

    :param upstream: the definition.
    :param path: the table's location.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(
        self, upstream: UpstreamDefinition, path: str, storage_options: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(DeltaHistory(path, storage_options))
        self.definition = upstream

    @abstractmethod
    def row_types(self, types: Mapping[str, str]) -> Mapping[str, str]:
        """
        Return the columns of the rows that events are about.

        :param types: the columns of the table of events → type, as Delta writes it.
        :raises UpstreamError: if the table has no such events.
        """

    @abstractmethod
    def key_value(self, offset: Offset, name: str) -> str:
        """Return the expression of a key column at a version, in DataFusion's SQL."""

    @property
    def old_columns(self) -> frozenset[str]:
        """The columns of the key and of the distribution key, which changes have of rows before them."""
        return frozenset({*self.key, *self.definition.distribution_key})

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns."""
        return tuple(column.column for column in self.definition.key)

    def require_used_columns(self, after: Offset, up_to: Offset, upstream: ResolvedUpstream) -> None:
        """
        Refuse a window ``(after, up_to]`` in which the events had no used column, or with another type.

        :raises UpstreamSchemaChangedError: with the columns and the version.
        """
        for version, schema in windows.schemas(self.log, version_of(after), version_of(up_to)):
            if schema is None:
                continue
            if problems := TableSchema(self.row_types(schema.types), {}).differences_from(upstream):
                raise UpstreamSchemaChangedError(
                    f"the events of {self.location} do not have the columns that the job uses as of version {version}: "
                    f"{'; '.join(problems)}; adapt the job's query and rebuild it"
                )

    # ------------------------------------------------------------------------------------------- rows and keys

    @property
    def reads_whole(self) -> bool:
        """The last event of a key may lie in any file."""
        return True

    def blocks(self, offset: Offset, order: KeyOrder) -> Sequence[FileStatistics]:
        """Return all events as one block; its keys are not known without reading it."""
        del order
        size = self.files_at(offset).size()
        return [FileStatistics(path=self.location, row_count=self.row_count(offset), is_exact=False, size=size)]

    def blocks_of_job(self, offset: Offset, settings: JobSettings) -> tuple[Sequence[FileStatistics], KeyIndex]:
        """Return all events as one block, and an index that reads their keys."""
        return self.blocks(offset, settings.key_order), _EventKeys(self, offset, settings.key_order)

    def keys(self, offset: Offset, order: KeyOrder) -> pa.Table:
        """Return the distinct keys that have events at a version, of rows that may be deleted."""
        columns = ", ".join(
            f"{self.key_value(offset, name)} AS column_{number}" for number, name in enumerate(order.names)
        )
        found = self.select(offset, f"SELECT DISTINCT {columns} FROM {EVENTS}").read_all()
        return pa.table(
            {field.name: found.column(number).cast(arrow_type(field)) for number, field in enumerate(order.fields)}
        )

    def select(self, offset: Offset, query: str) -> pa.RecordBatchReader:
        """Query the table of events as of a version; without a condition, no file is skipped by its statistics."""
        with storage_errors(self.location):
            found = QueryBuilder().register(EVENTS, self.files_at(offset).table).execute(query)
            return pa.RecordBatchReader.from_stream(found)


class _EventKeys(KeyIndex):
    """
    The keys of all events at a version, read at most once.

    It also counts the keys of deleted rows, which can only make a chunk smaller than its rate limit.
    """

    def __init__(self, source: EventTableSource, offset: Offset, order: KeyOrder) -> None:
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


def path_value(path: Sequence[str]) -> str:
    """Return a column, or a field inside it, in DataFusion's SQL."""
    column, *fields = path
    quoted = [field.replace("'", "''") for field in fields]
    return '"' + column.replace('"', '""') + '"' + "".join(f"['{field}']" for field in quoted)

"""
The data files of one version of a Delta table: their rows, and bounds of their keys from the log's statistics.

Statistics are hints: writers round them or leave them out. Bounds are widened by the rounding errors of known writers.
A chunk is planned with statistics, and the epoch counts its rows to check that none is missing.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain, takewhile
from threading import Lock
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as arrow_fs
from cachetools import LRUCache, cached
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.core.scan.decimals import rounded_down, rounded_up
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import KeyField, KeyKind, KeyOrder, KeyValue
from airflow_backfill_provider.lake.files.key_index import ArrowKeyIndex
from airflow_backfill_provider.lake.files.own_files import require_own
from airflow_backfill_provider.lake.files.row_counts import LoggedFile, RowCount, stored_rows
from airflow_backfill_provider.lake.files.stored_columns import read_stored
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.hidden_rows import hidden_row_counts
from airflow_backfill_provider.lake.store.storage import data_file_errors, log_errors, storage_errors
from airflow_backfill_provider.lake.stored_parquet import StoredParquet

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""The character that Java and Rust write in place of invalid UTF-8."""

Bound = tuple[KeyValue | None, ...]

MOST_KNOWN_FOOTERS = 100_000


class DataFiles:
    """
    The data files of an opened version.

    :param table: the opened table.
    :param path: its canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, table: DeltaTable, path: str, storage_options: Mapping[str, str]) -> None:
        self._table = table
        self._path = path
        self._log = DeltaLog(path, storage_options)
        self._statistics: dict[KeyOrder, list[FileStatistics]] = {}

    @property
    def table(self) -> DeltaTable:
        """The opened table."""
        return self._table

    @property
    def version(self) -> int:
        """The opened version."""
        return self._table.version()

    def row_count(self) -> int:
        """Return the number of rows that the files store, including those that deletion vectors hide."""
        return sum(count.rows for count in self._stored)

    def live_rows(self) -> RowCount:
        """Return the number of rows that a reader finds, and whether it is exact."""
        return RowCount(sum(count.rows for count in self._live), all(count.is_exact for count in self._live))

    @cached_property
    def _logged(self) -> list[LoggedFile]:
        """
        The log's entry of each file.

        :raises UpstreamError: if files lie outside the table's folder.
        """
        require_own(self._path, self._column("path"))
        written = self._column("path"), self._column("num_records"), self._column("size_bytes")
        return [LoggedFile(unquote(path), rows, size) for path, rows, size in zip(*written, strict=True)]

    def rows_by_file(self) -> dict[str, tuple[int, int]]:
        """Return for each file how many rows it stores, and how many of them a reader finds."""
        counts = zip(self._logged, self._stored, self._live, strict=True)
        return {file.path: (stored.rows, live.rows) for file, stored, live in counts}

    def in_order(self) -> list[tuple[LoggedFile, RowCount, RowCount]]:
        """
        Return the files in the order in which they were written, and of each the stored and the live rows.

        The order depends on the version alone, not on the checkpoint that it was read from.

        :raises UpstreamError: if files lie outside the table's folder.
        """
        found = zip(self._logged, self._stored, self._live, strict=True)
        return sorted(found, key=lambda counted: (self._modified.get(counted[0].path, 0), counted[0].path))

    @cached_property
    def _stored(self) -> list[RowCount]:
        return stored_rows(self._logged, self.footer_rows)

    @cached_property
    def _live(self) -> list[RowCount]:
        if not self.may_hide_rows:
            return self._stored
        try:
            with storage_errors(self._path):
                hidden = hidden_row_counts(self._log, self.version)
        except (BackfillError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException):
            # deltalake may still read a log that this code cannot parse.
            return [count._replace(is_exact=False) for count in self._stored]
        logged = zip(self._logged, self._stored, strict=True)
        return [_without_hidden(count, hidden.get(file.path, 0)) for file, count in logged]

    def footer_rows(self, path: str) -> int:
        """Return the number of rows that a file's footer has."""
        return _rows_by_footer(self.storage, self._path, path, self._modified.get(path, 0))

    def size(self) -> int:
        """Return the size of the files in bytes."""
        return sum(self._column("size_bytes"))

    def statistics(self, order: KeyOrder) -> tuple[list[FileStatistics], ArrowKeyIndex]:
        """
        Return the files with bounds of their keys, and an index to read exact keys.

        :param order: the key's columns.
        :raises UpstreamError: if files lie outside the table's folder.
        """
        return self.files(order), self.keys(order)

    def keys(self, order: KeyOrder) -> ArrowKeyIndex:
        """Return an index to read exact keys."""
        values = {}
        if partitioned := self._partitioned(order):
            # As Arrow values: Python's dates end with the year 9999.
            of_columns = [_nested(self._actions, "partition", name) for name in partitioned]
            of_files = (dict(zip(partitioned, found, strict=True)) for found in zip(*of_columns, strict=True))
            values = dict(zip(self._paths(), of_files, strict=True))
        return ArrowKeyIndex(
            self.storage,
            order,
            physical_names_of(self._table),
            values,
            field_ids=field_ids_of(self._table),
            table=self._path,
        )

    def files(self, order: KeyOrder) -> list[FileStatistics]:
        """
        Return the files with bounds of their keys.

        :raises UpstreamError: if files lie outside the table's folder, or text in the key is not valid UTF-8.
        """
        if order not in self._statistics:
            self._statistics[order] = self._read_statistics(order)
        return self._statistics[order]

    def _read_statistics(self, order: KeyOrder) -> list[FileStatistics]:
        columns = self._paths(), self._stored, self._live, self._column("size_bytes"), *self._bounds(order)
        files = [
            FileStatistics(
                path=path,
                row_count=live.rows,
                hidden_rows=stored.rows - live.rows,
                is_exact=live.is_exact,
                size=size,
                lower=lower,
                upper=upper,
            )
            for path, stored, live, size, lower, upper in zip(*columns, strict=True)
        ]
        for file in files:
            # Statistics are JSON, so invalid UTF-8 is written as other text, which sorts elsewhere.
            if any(isinstance(value, str) and _REPLACEMENT in value for value in (*file.lower, *file.upper)):
                self.keys(order).require_utf8(file)
        return files

    @property
    def storage(self) -> arrow_fs.FileSystem:
        """File system rooted at the table."""
        return self._log.storage

    def read(self, path: str, columns: Sequence[str]) -> pa.Table:
        """Return some columns of one data file, under their own names."""
        physical_names = physical_names_of(self._table)
        stored_names = [physical_names[name] for name in columns]
        with data_file_errors(self.storage, self._path, path):
            stored = read_stored(self.storage, path, stored_names, field_ids_of(self._table))
        return stored.select(stored_names).rename_columns(list(columns))

    def read_partial(self, path: str, columns: Sequence[str]) -> pa.Table:
        """Return those of some columns of one data file that it has, under their own names; no partition columns."""
        names = physical_names_of(self._table)
        with data_file_errors(self.storage, self._path, path):
            stored = read_stored(self.storage, path, [names[name] for name in columns], field_ids_of(self._table))
        own = {names[name]: name for name in columns}
        return stored.rename_columns([own[name] for name in stored.column_names])

    def partition_values(self, path: str) -> dict[str, Any]:
        """Return the values of the partition columns of one of the version's files."""
        place = self._paths().index(path)
        return {name: self._column("partition", name)[place] for name in self._table.metadata().partition_columns}

    @cached_property
    def may_hide_rows(self) -> bool:
        """Whether the table may have deletion vectors."""
        return "deletionVectors" in (self._table.protocol().reader_features or ())

    def hidden_rows(self) -> dict[str, pa.Array] | None:
        """
        Return a mask of the rows that are not hidden, for each file with a deletion vector.

        :returns: masks by file path; rows after a mask's end are not hidden. ``None`` if deltalake cannot read them.
        :raises StorageUnavailableError: if the storage cannot be reached.
        """
        if not self.may_hide_rows:
            return {}
        by_name: dict[str, list[str]] = {}
        for path in self._paths():
            by_name.setdefault(path.rpartition("/")[2], []).append(path)
        masks: dict[str, pa.Array] = {}
        with suppress(DeltaError, ValueError), storage_errors(self._path):
            for batch in map(pa.record_batch, self._table.deletion_vectors()):
                for location, mask in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                    named = by_name.get(unquote(location).rpartition("/")[2], [])
                    if len(named) != 1:
                        return None
                    masks[named[0]] = mask.values
            return masks
        return None

    def _paths(self) -> list[str]:
        return [file.path for file in self._logged]

    def _partitioned(self, order: KeyOrder) -> list[str]:
        """Return the key columns that are partition columns."""
        return [name for name in order.names if name in self._table.metadata().partition_columns]

    def _bounds(self, order: KeyOrder) -> tuple[list[Bound], list[Bound]]:
        """
        Return a lower and an upper bound of each file, over the leading key columns that have statistics.

        Bounds of the columns are bounds of the whole key, because keys are compared column by column.
        """
        physical_names, partitioned = physical_names_of(self._table), self._partitioned(order)
        lower: list[list[Bound]] = []
        upper: list[list[Bound]] = []
        for field in order.fields:
            if field.name in partitioned:
                exact = self._partition_values(field.name)
                lower.append(exact)
                upper.append(exact)
                continue
            begins, ends, nulls = self._statistics_of(field, physical_names[field.name])
            rows = self._column("num_records")
            lower.append([*map(_lower, begins, ends, nulls, rows)])
            upper.append([*map(_upper, begins, ends, nulls, rows)])
        return _of_key(lower), _of_key(upper)

    def _statistics_of(self, field: KeyField, name: str) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the first and last value of a column in the key's order, and its number of nulls, for each file."""
        smallest, largest, nulls = (self._column(figure, name) for figure in ("min", "max", "null_count"))
        if field.kind in {KeyKind.TIMESTAMP, KeyKind.TIMESTAMP_NTZ}:
            largest = [None if value is None else _milliseconds_up(value) for value in largest]
        if field.kind is KeyKind.DECIMAL:
            smallest = [None if value is None else rounded_down(value, field.type) for value in smallest]
            largest = [None if value is None else rounded_up(value, field.type) for value in largest]
        return (largest, smallest, nulls) if field.descending else (smallest, largest, nulls)

    def _partition_values(self, name: str) -> list[Bound]:
        """Return the value of a partition column in each file; empty if Python cannot represent it."""
        values = self._column("partition", name)
        is_null = _nested(self._actions, "partition", name).is_null().to_pylist()
        return [(value,) if null or value is not None else () for value, null in zip(values, is_null, strict=True)]

    @cached_property
    def _modified(self) -> dict[str, int]:
        return dict(zip(map(unquote, self._column("path")), self._column("modification_time"), strict=True))

    def _column(self, *path: str) -> list[Any]:
        """Return one entry of the log for each file; ``None`` if it is missing or Python cannot represent it."""
        column = _nested(self._actions, *path)
        return [None] * self._actions.num_rows if column is None else _python_values(column)

    @cached_property
    def _actions(self) -> pa.Table:
        with log_errors(self._path):
            # Flattened, a column `a.b` and the field b of a struct a would have one name.
            return pa.table(self._table.get_add_actions(flatten=False))


# A data file never changes, so its footer is read once.
@cached(LRUCache(MOST_KNOWN_FOOTERS), key=lambda _, *file: file, lock=Lock())
def _rows_by_footer(storage: arrow_fs.FileSystem, table: str, path: str, modified: int) -> int:
    """
    Return the number of rows in a data file's footer.

    :param modified: when the file was written. It is part of the cache's key: an earlier table at the same location
        may have had a file of the same name.
    """
    del modified
    with data_file_errors(storage, table, path), storage.open_input_file(path) as source:
        return int(StoredParquet(source).metadata.num_rows)


def _without_hidden(stored: RowCount, hidden: int | None) -> RowCount:
    if hidden is None or hidden > stored.rows:
        return stored._replace(is_exact=False)
    return stored._replace(rows=stored.rows - hidden)


def physical_names_of(table: DeltaTable) -> dict[str, str]:
    """Return column → its name in files and statistics."""
    fields = json.loads(table.schema().to_json())["fields"]
    return {field["name"]: field["metadata"].get("delta.columnMapping.physicalName", field["name"]) for field in fields}


def field_ids_of(table: DeltaTable) -> dict[str, int] | None:
    """Return column name in data files → id there; ``None`` if the table does not map columns by id."""
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "id":
        return None
    fields = (field["metadata"] for field in json.loads(table.schema().to_json())["fields"])
    return {
        metadata["delta.columnMapping.physicalName"]: int(metadata["delta.columnMapping.id"]) for metadata in fields
    }


def _nested(rows: pa.Table, *path: str) -> Any:
    """Return a column by its exact name, or a field inside a column; ``None`` if there is none."""
    name, *fields = path
    if name not in rows.column_names:
        return None
    column = rows.column(name)
    for field in fields:
        index = column.type.get_field_index(field)
        if index < 0:
            return None
        column = pc.struct_field(column, [index])
    return column


def _python_values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values; ``None`` for a date that Python cannot represent (after the year 9999)."""
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        return [*map(_python_value, column)]
    return values


def _of_key(columns: Sequence[Sequence[Bound]]) -> list[Bound]:
    """Return each file's bound of the whole key; it ends before the first column without a bound."""
    if len(columns) == 1:
        return list(columns[0])
    of_files = zip(*columns, strict=True)
    return [tuple(chain.from_iterable(takewhile(bool, of_columns))) for of_columns in of_files]


def _lower(first: KeyValue | None, last: KeyValue | None, nulls: int | None, rows: int | None) -> Bound:
    """Return a lower bound of one column, empty if it has no statistics; nulls come first."""
    if nulls is None:
        return ()
    if nulls or nulls == rows:
        return (None,)
    return () if first is None or last is None else (first,)


def _upper(first: KeyValue | None, last: KeyValue | None, nulls: int | None, rows: int | None) -> Bound:
    """Return an upper bound of one column, empty if it has no statistics, or contradictory ones."""
    if nulls is None:
        return ()
    if nulls == rows:
        # An upper bound that is too low may end a chunk before the file's first row.
        return (None,) if first is None and last is None else ()
    return () if first is None or last is None else (last,)


def _python_value(value: pa.Scalar) -> Any:
    """Return a value; ``None`` for a date that Python cannot represent (after the year 9999)."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return None


def _milliseconds_up(largest: dt.datetime) -> dt.datetime:
    # Statistics are truncated to milliseconds, so the real maximum may be up to one millisecond later.
    latest = dt.datetime.max.replace(tzinfo=largest.tzinfo)
    return largest + min(dt.timedelta(milliseconds=1), latest - largest)

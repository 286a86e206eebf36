"""
Finds rows of a plain local Delta table by values of some columns, and where they lie, without Spark.

An epoch replaces a few rows of a view. To find them, Spark would first rebuild the state of the view's log, and would
plan and compile the scan; on one machine that takes longer than to read the columns here.

Whatever is unusual is left to Spark: values that it takes for equal and Arrow does not, files that do not have the
table's own columns, and rows that are too many for one process.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_backfill_provider.lake.files.deletion_vectors import few_hidden_rows
from airflow_backfill_provider.lake.files.own_files import lies_outside
from airflow_backfill_provider.lake.log.arrow_types import arrow_schema
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.log_state import Action, log_state
from airflow_backfill_provider.lake.log.plain_tables import PlainTable
from airflow_backfill_provider.lake.stored_parquet import StoredParquet

MOST_BYTES = 64 * 1024 * 1024
"""The most bytes of rows that are found here."""

_MOST_ROWS, _LEAST_ROWS = 64 * 1024, 256
_BATCH_BYTES = 16 * 1024 * 1024
"""How many rows are read at once, and about how many bytes: texts may be long."""

_FIXED = frozenset({"boolean", "byte", "date", "integer", "long", "short", "timestamp", "timestamp_ntz"})
_MOST_FIXED_ROWS = 1024 * 1024
"""How many rows of short values are looked at together: Arrow hashes all wanted values anew each time."""

_INEXACT = frozenset({"float", "double"})
"""Types of which Spark takes different values for equal: 0.0 and -0.0."""

_ORDERED = frozenset({"byte", "date", "integer", "long", "short"})
"""Types of which each writer records the least and the greatest value alike."""

_OF_DAYS = frozenset({"date", "timestamp", "timestamp_ntz"})
_SPARK_VERSION = b"org.apache.spark.version"
_OTHER_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_FIRST_WITH_OUR_CALENDAR = 3
"""The first major version of Spark that writes days in the calendar that everybody else uses."""


class _LeftToSpark(Exception):  # noqa: N818 - it is no error
    """The rows have to be found by Spark."""


def rows_by_value(
    location: str, version: int, table: PlainTable, wanted: pa.Table, places: tuple[str, str]
) -> pa.Table | None:
    """
    Return the rows of a flat table that have wanted values; a null is a value like any other.

    :param wanted: values of some of the table's columns, under their names; a value may be there several times.
    :param places: the names of two more columns: the path of a row's file in the log, and the row's number there.
    :returns: the table's columns and the places; ``None`` if Spark has to find the rows.
    """
    kinds = {column["name"]: column["type"] for column in table.fields}
    if not wanted.column_names or any(kinds[name] in _INEXACT for name in wanted.column_names):
        return None
    schema = arrow_schema(table.fields)
    try:
        values = _Values.of(wanted.cast(pa.schema([schema.field(name) for name in wanted.column_names])), kinds)
        search = _Search(Path(location), schema, kinds, values, places)
        return search.found(log_state(DeltaLog(location), version).files)
    except (_LeftToSpark, pa.ArrowException, OSError, ValueError):
        # If something is wrong with a file, Spark says what.
        return None


@dataclass(frozen=True, slots=True)
class _Values:
    """
    Wanted values.

    :param sets: for each column its values, each once.
    :param codes: for each column but the first, which combinations of values up to it are wanted, as numbers; see
        :func:`_combined`.
    :param bounds: the least and the greatest value of some of the columns that are never null.
    """

    names: tuple[str, ...]
    sets: tuple[pa.Array, ...]
    codes: tuple[pa.Array, ...]
    bounds: Mapping[str, tuple[Any, Any]]

    @classmethod
    def of(cls, wanted: pa.Table, kinds: Mapping[str, str]) -> _Values:
        names = tuple(wanted.column_names)
        sets = tuple(pc.unique(wanted.column(name)) for name in names)
        bounds = {
            name: (found["min"], found["max"])
            for name in names
            if kinds[name] in _ORDERED and not wanted.column(name).null_count and wanted.num_rows
            for found in [pc.min_max(wanted.column(name)).as_py()]
        }
        codes: list[pa.Array] = []
        code = pc.index_in(wanted.column(0), sets[0])
        for column, known in zip(wanted.columns[1:], sets[1:], strict=True):
            combined = _combined(code, column, known)
            codes.append(pc.unique(combined))
            code = pc.index_in(combined, codes[-1])
        return cls(names, sets, tuple(codes), bounds)

    def mask(self, rows: pa.RecordBatch) -> pa.Array:
        """Return for each row whether it has wanted values."""
        first, *others = [rows.column(name).cast(known.type) for name, known in zip(self.names, self.sets, strict=True)]
        # A value that is not wanted has no number, and a combination with it has none either.
        code = pc.index_in(first, self.sets[0])
        for column, known, wanted in zip(others, self.sets[1:], self.codes, strict=True):
            code = pc.index_in(_combined(code, column, known), wanted)
        return pc.is_valid(code)

    def may_be_in(self, group: pq.RowGroupMetaData) -> bool:
        """Return whether a group of rows may have wanted values, by what its file records of it."""
        for number in range(group.num_columns):
            column = group.column(number)
            bounds, recorded = self.bounds.get(column.path_in_schema), column.statistics
            if bounds is None or recorded is None or not recorded.has_min_max:
                continue
            if recorded.max < bounds[0] or recorded.min > bounds[1]:
                return False
        return True


def _combined(code: pa.Array, column: pa.Array, known: pa.Array) -> pa.Array:
    """Return the number of a combination of values, from that of its first ones and its last value."""
    return pc.add(pc.multiply(code.cast(pa.int64()), len(known)), pc.index_in(column, known).cast(pa.int64()))


class _Bytes:
    """The bytes of the rows that several threads have found."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total = 0

    def add(self, found: int) -> None:
        """Count more of them."""
        with self._lock:
            self._total += found
            if self._total > MOST_BYTES:
                raise _LeftToSpark


@dataclass(frozen=True, slots=True)
class _Search:
    """
    A search for rows.

    :param folder: the table's folder.
    :param kinds: the table's columns and their types.
    """

    folder: Path
    schema: pa.Schema
    kinds: Mapping[str, str]
    values: _Values
    places: tuple[str, str]
    found_bytes: _Bytes = field(default_factory=_Bytes)

    def found(self, files: Mapping[str, Action]) -> pa.Table:
        """Return the rows in some files, by their entries in the log."""
        file, row = self.places
        schema = self.schema.append(pa.field(file, pa.string())).append(pa.field(row, pa.int64()))
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as readers:
            parts = readers.map(lambda file: [*self._in_file(*file)], files.items())
            return pa.concat_tables([schema.empty_table(), *itertools.chain.from_iterable(parts)])

    def _in_file(self, path: str, entry: Action) -> Iterator[pa.Table]:
        """Yield rows of a file, with their places."""
        file, row = self.places
        for rows, numbers in self._shown_in(path, entry):
            placed = rows.append_column(file, pa.array([path] * len(rows), pa.string()))
            part = placed.append_column(row, numbers)
            self.found_bytes.add(part.nbytes)
            yield part

    def _shown_in(self, path: str, entry: Action) -> Iterator[tuple[pa.Table, pa.Array]]:
        """Yield rows of a file that are not hidden, and their numbers."""
        if lies_outside(path):
            raise _LeftToSpark
        hidden: set[int] | None = None
        with pa.OSFile(str(self.folder / unquote(path))) as source:
            file = StoredParquet(source, int96_unit="us")
            self._require_own_columns(file)
            first = 0
            for group in range(file.metadata.num_row_groups):
                described = file.metadata.row_group(group)
                if self.values.may_be_in(described):
                    for rows, numbers in self._in_group(file, group, first):
                        # To decode them takes time, so only of a file with wanted rows.
                        hidden = few_hidden_rows(self.folder, entry) if hidden is None else hidden
                        shown = pa.array([number not in hidden for number in numbers.to_pylist()], pa.bool_())
                        yield rows.filter(shown), numbers.filter(shown)
                first += described.num_rows

    def _in_group(self, file: StoredParquet, group: int, first: int) -> Iterator[tuple[pa.Table, pa.Array]]:
        size = _batch_size(file.metadata.row_group(group))
        are_short = _FIXED.issuperset(self.kinds[name] for name in self.values.names)
        looked_at = file.batches(_MOST_FIXED_ROWS if are_short else size, group, self.values.names)
        masks = [self.values.mask(batch) for batch in looked_at]
        if not any(pc.any(mask).as_py() for mask in masks):
            return
        mask, begin = pa.chunked_array(masks), 0
        for batch in file.batches(size, group, self.schema.names):
            numbers = pc.indices_nonzero(mask.slice(begin, len(batch))).cast(pa.int64())
            if len(numbers):
                rows = pa.Table.from_batches([batch]).select(self.schema.names).take(numbers)
                yield rows.cast(self.schema), pc.add(numbers, first + begin)
            begin += len(batch)

    def _require_own_columns(self, file: StoredParquet) -> None:
        """Leave a file to Spark whose columns, or the calendar of whose days, are not those of the table."""
        stored, described = file.schema_arrow, file.metadata.metadata or {}
        physical = {file.schema.column(number).path: number for number in range(len(file.schema.names))}
        for wanted in self.schema:
            found = stored.get_all_field_indices(wanted.name)
            if len(found) != 1 or wanted.name not in physical:
                raise _LeftToSpark
            kind = stored.field(found[0]).type
            is_int96 = file.schema.column(physical[wanted.name]).physical_type == "INT96"
            if kind != wanted.type and not (is_int96 and self.kinds[wanted.name] == "timestamp"):
                raise _LeftToSpark
        if _OF_DAYS.intersection(self.kinds.values()) and _has_other_calendar(described):
            raise _LeftToSpark


def _batch_size(group: pq.RowGroupMetaData) -> int:
    """Return how many rows of a group to read at once."""
    width = max(int(group.total_byte_size) // max(int(group.num_rows), 1), 1)
    return max(min(_BATCH_BYTES // width, _MOST_ROWS), _LEAST_ROWS)


def _has_other_calendar(described: Mapping[bytes, bytes]) -> bool:
    """Return whether days before 1582 mean others than they do to Arrow, by what a file says of itself."""
    major = described.get(_SPARK_VERSION, b"").split(b".")[0]
    is_old = major.isdigit() and int(major) < _FIRST_WITH_OUR_CALENDAR
    return is_old or any(name in described for name in _OTHER_CALENDAR)

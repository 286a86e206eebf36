"""
Exact keys of single data files, read with Arrow.

Each file is read at most once, and only its key columns. Rows that a deletion vector hides are counted, which can only
make a chunk smaller than its rate limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as arrow_fs

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.core.scan.decimals import digits_of
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import KeyField, KeyKind, KeyOrder, KeyRange, KeyValue, Position
from airflow_backfill_provider.lake.files.stored_columns import read_stored
from airflow_backfill_provider.lake.store.storage import data_file_errors

SORTED_AT_ONCE = 4
"""How many keys are collected before the n smallest are kept, as a multiple of n."""


class ArrowKeyIndex:
    """
    Answers a planner's questions from the upstream's Parquet files.

    :param files: file system rooted at the table.
    :param order: the key's columns.
    :param physical_names: key column → its name in the data files.
    :param partition_values: file path → values of the key columns that are partition columns, as Arrow scalars.
    :param field_ids: name in the data files → id there, if the table maps its columns by id.
    :param table: its location, for messages.
    """

    def __init__(
        self,
        files: arrow_fs.FileSystem,
        order: KeyOrder,
        physical_names: Mapping[str, str],
        partition_values: Mapping[str, Mapping[str, pa.Scalar]],
        *,
        field_ids: Mapping[str, int] | None = None,
        table: str = "",
    ) -> None:
        self._files = files
        self._order = order
        self._physical_names = physical_names
        self._partition_values = partition_values
        self._field_ids = field_ids
        self._table = table
        self._loaded: dict[str, pa.Table] = {}

    def count(self, file: FileStatistics, within: KeyRange) -> int:
        """Return the number of the file's keys in a range."""
        return int(keys_within(self._load(file), self._order, within).num_rows)

    def nth(self, files: Sequence[FileStatistics], within: KeyRange, n: int) -> Position | None:
        """Return the n-th smallest (from 1) of the files' keys in a range; None if there are fewer."""
        return nth_key((self._load(file) for file in files), self._order, within, n)

    def last_before(self, files: Sequence[FileStatistics], within: KeyRange, position: Position) -> Position | None:
        """Return the greatest of the files' keys in a range that lies before a position; None if there is none."""
        return last_key_before((self._load(file) for file in files), self._order, within, position)

    def _load(self, file: FileStatistics) -> pa.Table:
        if file.path not in self._loaded:
            self._loaded[file.path] = self.read(file)
        return self._loaded[file.path]

    def read(self, file: FileStatistics) -> pa.Table:
        """Return the keys of one file."""
        constants = self._partition_values.get(file.path, {})
        names = [self._physical_names[field.name] for field in self._order.fields if field.name not in constants]
        with data_file_errors(self._files, self._table, file.path):
            return self._keys(read_stored(self._files, file.path, names, self._field_ids), constants)

    def require_utf8(self, file: FileStatistics) -> None:
        """
        Refuse a file with text in the key that is not valid UTF-8.

        :raises UpstreamError: with the file and the column.
        """
        keys = self.read(file)
        for name in self._order.names:
            try:
                keys.column(name).validate(full=True)
            except pa.ArrowInvalid as error:
                raise UpstreamError(
                    f"the key column {name!r} of data file {file.path} of {self._table} has text that is not valid "
                    "UTF-8, so its statistics in the log are wrong, and a reader that relies on them misses rows; "
                    "correct the rows, or change the column to binary"
                ) from error

    def _keys(self, table: pa.Table, constants: Mapping[str, pa.Scalar]) -> pa.Table:
        """Return the key's columns in the Arrow types of the key."""
        columns = {}
        for field in self._order.fields:
            kind, stored = arrow_type(field), self._physical_names[field.name]
            if field.name in constants:
                columns[field.name] = pa.repeat(constants[field.name].cast(kind), table.num_rows)
            elif stored in table.column_names:
                columns[field.name] = table.column(stored).cast(kind)
            else:  # the file is older than the column
                columns[field.name] = pa.nulls(table.num_rows, kind)
        return pa.table(columns)


def arrow_type(field: KeyField) -> pa.DataType:
    """Return the Arrow type that holds every value of a key column."""
    if field.kind is KeyKind.DECIMAL:
        return pa.decimal128(*digits_of(field.type))
    return {
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "string": pa.string(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "binary": pa.binary(),
        "boolean": pa.bool_(),
    }[field.type]


def shown_keys(keys: pa.Table, mask: pa.Array | None) -> pa.Table:
    """
    Return the keys of a file's rows that a deletion vector does not hide.

    :param mask: says for each row whether it is shown, and rows after its end are; ``None`` if no row is hidden.
    """
    if mask is None:
        return keys
    after = max(keys.num_rows - len(mask), 0)
    return keys.filter(pa.concat_arrays([mask.slice(0, keys.num_rows), pa.array([True] * after, pa.bool_())]))


def keys_within(keys: pa.Table, order: KeyOrder, within: KeyRange) -> pa.Table:
    """Return the keys that lie in a range."""
    if within.after is not None:
        keys = keys.filter(_is_after(keys, order, within.after))
    if within.up_to is not None:
        keys = keys.filter(pc.invert(_is_after(keys, order, within.up_to)))
    return keys


def nth_key(files: Iterable[pa.Table], order: KeyOrder, within: KeyRange, n: int) -> Position | None:
    """Return the n-th smallest (from 1) of the keys in a range; None if there are fewer."""
    found: list[pa.Table] = []
    rows = 0
    for file in files:
        found.append(keys_within(file, order, within))
        rows += found[-1].num_rows
        # Sorting from time to time bounds the memory, and sorts no key very often.
        if rows > SORTED_AT_ONCE * n:
            found = [_smallest(found, order, n)]
            rows = n
    smallest = _smallest(found, order, n) if found else None
    if smallest is None or smallest.num_rows < n:
        return None
    return _as_position(smallest.slice(n - 1, 1), order)


def last_key_before(
    files: Iterable[pa.Table], order: KeyOrder, within: KeyRange, position: Position
) -> Position | None:
    """Return the greatest of the keys in a range that lies before a position; None if there is none."""
    last: list[pa.Table] = []
    for file in files:
        keys = keys_within(file, order, within)
        before = in_key_order(keys.filter(pc.invert(pc.or_(*_compared(keys, order, position)))), order)
        last.append(before.slice(max(before.num_rows - 1, 0)))
    greatest = in_key_order(pa.concat_tables(last), order) if last else None
    if greatest is None or not greatest.num_rows:
        return None
    return _as_position(greatest.slice(greatest.num_rows - 1), order)


def _as_position(keys: pa.Table, order: KeyOrder) -> Position:
    """
    Return the first key as a position.

    :raises UpstreamError: if Python cannot represent it.
    """
    key = leading_values(keys, order)
    if len(key) < len(order.fields):
        raise UpstreamError(
            f"a chunk would end at a key whose column {order.fields[len(key)].name!r} has a value that cannot be "
            "stored as a position: text that is not valid UTF-8, or a year before 1 or after 9999; correct the row, or "
            "set the rate limit to null, so that no chunk ends there"
        )
    return key


def leading_values(keys: pa.Table, order: KeyOrder) -> Position:
    """Return the first key, up to the first column with a value that Python cannot represent."""
    values: list[KeyValue | None] = []
    for field in order.fields:
        try:
            values.append(keys.column(field.name)[0].as_py())
        except (OverflowError, ValueError):
            break
    return tuple(values)


def _smallest(keys: Sequence[pa.Table], order: KeyOrder, n: int) -> pa.Table:
    return in_key_order(pa.concat_tables(keys), order).slice(0, n)


def in_key_order(keys: pa.Table, order: KeyOrder) -> pa.Table:
    """Return a table with the key's columns, sorted by the key."""
    names = plain_names(len(order.fields))
    sort_keys = [
        (name, "descending" if field.descending else "ascending", "at_start")
        for name, field in zip(names, order.fields, strict=True)
    ]
    sortable = keys.select(order.names).rename_columns(names)
    for index, field in enumerate(order.fields):
        if field.kind is KeyKind.BOOLEAN:
            sortable = sortable.set_column(index, names[index], sortable.column(index).cast(pa.int8()))
    return keys.take(pc.sort_indices(sortable, sort_keys=sort_keys))


def plain_names(count: int) -> list[str]:
    """Return column names that are safe to sort by: Arrow reads a name that begins with a dot as a path."""
    return [f"column_{index}" for index in range(count)]


def _is_after(keys: pa.Table, order: KeyOrder, after: Position) -> pa.ChunkedArray:
    """Return a mask of the keys after a position, nulls first; a key that begins with the position is not after it."""
    return _compared(keys, order, after)[0]


def _compared(keys: pa.Table, order: KeyOrder, after: Position) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Return masks of the keys after a position, nulls first, and of those that begin with it."""
    later: pa.ChunkedArray | None = None
    equal: pa.ChunkedArray | None = None
    for field, value in zip(order.fields, after, strict=False):
        column = keys.column(field.name)
        if value is None:
            greater, same = pc.is_valid(column), pc.is_null(column)
        else:
            literal = pa.scalar(value, arrow_type(field))
            compare = pc.less if field.descending else pc.greater
            if field.kind is KeyKind.BOOLEAN:
                column, literal = column.cast(pa.int8()), pa.scalar(int(bool(value)), pa.int8())
            greater = pc.fill_null(compare(column, literal), False)
            same = pc.fill_null(pc.equal(column, literal), False)
        later = greater if later is None else pc.or_(later, pc.and_(equal, greater))
        equal = same if equal is None else pc.and_(equal, same)
    return later, equal

"""
The arrangement's Delta log: whether the table exists, and the data files that a chunk is chosen from.

The arrangement is a Delta replica of the columns that a job uses, laid out by (vnode, key). Spark writes it
(:mod:`~airflow_backfill_provider.strategies.arrangement.table`) in one commit, so a table that exists is complete.
Ports ``ReplicatedStateTable``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import DataFileError, StateError, TableLogError
from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder, KeyRange, KeyValue, Position
from airflow_backfill_provider.core.scan.unit_chunks import UnitIndex
from airflow_backfill_provider.lake.files.key_index import (
    ArrowKeyIndex,
    arrow_type,
    in_key_order,
    keys_within,
    last_key_before,
    leading_values,
    nth_key,
    plain_names,
)
from airflow_backfill_provider.lake.log.dropping import drop_table
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.storage import log_errors
from airflow_backfill_provider.lake.tables.data_files import DataFiles
from airflow_backfill_provider.lake.tables.existing import is_table

PIECES = 256
"""The number of pieces into which the changes are cut to choose chunks."""

_LAST_EPOCH = 2**62
"""A number above that of any epoch, for changes that come last."""


class ArrangementFiles:
    """
    Reads an arrangement's log, and drops it.

    :param path: canonical location of the table.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, path: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.path = path
        self._options = dict(storage_options or {})

    def exists(self) -> bool:
        """Return whether the arrangement exists."""
        return is_table(self.path, self._options)

    def statistics(
        self,
        order: KeyOrder,
        base_epoch: int,
        own: OwnColumns,
        coming: pa.Table | None = None,
        *,
        layout: KeyOrder | None = None,
    ) -> tuple[list[FileStatistics], UnitIndex]:
        """
        Return files with bounds of positions, and an index of exact positions, to choose chunks.

        The table stores a changed row once in the base and once for each epoch that changed it. The returned files
        count rows as a chunk reads them: files of the base without the changed rows, and files for the changes with
        only the newest rows.

        :param order: the order of positions: (vnode, key), or (vnode, unit).
        :param base_epoch: the epoch in the rows of the base.
        :param own: the names of the package's own columns.
        :param coming: changes that the epoch will append before it reads its chunk; see
            :func:`~airflow_backfill_provider.lake.tables.window_changes.window_changes`.
        :param layout: the order of rows if it is another one: (vnode, unit, key).
        """
        layout = layout or order
        with arrangement_errors(self.path):
            stored = self._stored()
            newest_epoch = {file.path: file.upper for file in stored.files(_by_epoch(own))}
            files = stored.files(order)
            log = [file for file in files if newest_epoch[file.path] != (base_epoch,)]
            if not (log or coming):
                return files, stored.keys(order)
            changed, is_live, is_new = _changed(stored, log, layout, own, coming)
        base = [file for file in files if newest_epoch[file.path] == (base_epoch,)]
        in_base = changed.filter(pc.invert(is_new))
        live = in_key_order(changed.filter(is_live), order)
        pieces = _pieces(live, order, size=sum(file.size for file in log))
        index = _LiveKeys(stored.keys(layout), order, in_base, {file.path: keys for file, keys in pieces})
        return [*_without(base, in_base, order), *(file for file, _ in pieces)], index

    def smallest_of_base(self, base_epoch: int, own: OwnColumns) -> int:
        """
        Return the bytes of the smallest file of the base; 0 if the base has none.

        :param base_epoch: the epoch in the rows of the base.
        :param own: the names of the package's own columns.
        """
        with arrangement_errors(self.path):
            files = self._stored().files(_by_epoch(own))
        return min((file.size for file in files if file.upper == (base_epoch,)), default=0)

    def size(self) -> int:
        """Return the bytes of its data files."""
        with arrangement_errors(self.path):
            return self._stored().size()

    def drop(self) -> None:
        """Delete the table with its files, if it exists; readers of it fail from then on."""
        drop_table(self.path, self._options)

    def _stored(self) -> DataFiles:
        return DataFiles(
            DeltaTable(self.path, storage_options=options_of(self.path, self._options)), self.path, self._options
        )


@contextmanager
def arrangement_errors(path: str) -> Iterator[None]:
    """
    Translate errors of a damaged arrangement into one that says what to do.

    :param path: the arrangement's location.
    :raises StateError: if its log or one of its data files is damaged or gone.
    """
    try:
        with log_errors(path):
            yield
    except (TableLogError, DataFileError) as error:
        raise StateError(f"the arrangement at {path} is damaged ({error})") from error


class _LiveKeys:
    """
    The exact keys of the rows that a chunk reads.

    :param stored: the keys in the base's files, in the order of rows.
    :param order: the order of positions.
    :param in_base: the keys of the base that changed, likewise.
    :param pieces: path → keys of the files for the changes.
    """

    def __init__(
        self, stored: ArrowKeyIndex, order: KeyOrder, in_base: pa.Table, pieces: Mapping[str, pa.Table]
    ) -> None:
        self._stored = stored
        self._order = order
        self._in_base = in_base
        self._known = dict(pieces)

    def count(self, file: FileStatistics, within: KeyRange) -> int:
        """Return the number of the file's keys in a range."""
        return int(keys_within(self._keys(file), self._order, within).num_rows)

    def nth(self, files: Sequence[FileStatistics], within: KeyRange, n: int) -> Position | None:
        """Return the n-th smallest (from 1) of the files' keys in a range; None if there are fewer."""
        return nth_key((self._keys(file) for file in files), self._order, within, n)

    def last_before(self, files: Sequence[FileStatistics], within: KeyRange, position: Position) -> Position | None:
        """Return the greatest of the files' keys in a range that lies before a position; None if there is none."""
        return last_key_before((self._keys(file) for file in files), self._order, within, position)

    def _keys(self, file: FileStatistics) -> pa.Table:
        if file.path not in self._known:
            self._known[file.path] = _without_keys(self._stored.read(file), self._in_base)
        return self._known[file.path]


def _without_keys(keys: pa.Table, others: pa.Table) -> pa.Table:
    """Return the keys that are not among others. Unlike in a join, a null is a value like any other."""
    names = others.column_names
    plain = plain_names(len(names))
    both = pa.concat_tables(
        table.select(names).rename_columns(plain).append_column("is_other", pa.repeat(is_other, table.num_rows))
        for table, is_other in ((keys, False), (others, True))
    )
    grouped = both.group_by(plain, use_threads=False).aggregate([("is_other", "any")])
    return grouped.filter(pc.invert(grouped.column("is_other_any"))).select(plain).rename_columns(names)


def _by_epoch(own: OwnColumns) -> KeyOrder:
    return KeyOrder((KeyField(name=own.epoch, type="long"),))


def _changed(
    stored: DataFiles, log: Sequence[FileStatistics], order: KeyOrder, own: OwnColumns, coming: pa.Table | None
) -> tuple[pa.Table, pa.ChunkedArray, pa.ChunkedArray]:
    """
    Return each (vnode, key) that changed, whether it has a row now, and whether it had none in the base.

    :param log: the files of changes.
    :param coming: changes that come after all of them.
    """
    columns = [*order.names, own.epoch, own.is_upsert, own.appeared]
    entries = [_typed(stored.read(file.path, columns), order) for file in log]
    if coming is not None:
        after = coming.append_column(own.epoch, pa.repeat(pa.scalar(_LAST_EPOCH, pa.int64()), coming.num_rows))
        entries.append(_typed(after.select(columns), order))
    plain = plain_names(len(order.fields))
    entries = pa.concat_tables(entries).rename_columns([*plain, *columns[len(plain) :]]).sort_by(own.epoch)
    grouped = entries.group_by(plain, use_threads=False)
    # Arrow names each result after its column, and no key has the prefix of the package's columns.
    changed = grouped.aggregate([(own.is_upsert, "last"), (own.appeared, "first")])
    keys = changed.select(plain).rename_columns(order.names)
    return keys, changed.column(f"{own.is_upsert}_last"), changed.column(f"{own.appeared}_first")


def _typed(entries: pa.Table, order: KeyOrder) -> pa.Table:
    for index, field in enumerate(order.fields):
        entries = entries.set_column(index, field.name, entries.column(field.name).cast(arrow_type(field)))
    return entries


def _pieces(live: pa.Table, order: KeyOrder, *, size: int) -> list[tuple[FileStatistics, pa.Table]]:
    """Cut the newest rows, in key order, into pieces with exact bounds, as far as Python can represent them."""
    rows = max(math.ceil(live.num_rows / PIECES), 1)
    pieces = []
    for start in range(0, live.num_rows, rows):
        keys = live.slice(start, rows)
        file = FileStatistics(
            path=f"changes#{start}",
            row_count=keys.num_rows,
            size=size * keys.num_rows // live.num_rows,
            lower=leading_values(keys.slice(0, 1), order),
            upper=leading_values(keys.slice(keys.num_rows - 1, 1), order),
        )
        pieces.append((file, keys))
    return pieces


def _without(base: Sequence[FileStatistics], in_base: pa.Table, order: KeyOrder) -> list[FileStatistics]:
    """
    Return the base's files without the rows that changed.

    Files are laid out in key order, so hardly any row lies within the bounds of two files. For such rows, and for files
    without bounds, only reading the keys gives an exact count.
    """
    bounded = [file for file in base if len(file.lower) == len(file.upper) == len(order.fields)]
    changed = _changed_between(bounded, in_base, order)
    has_others = len(bounded) < len(base) and in_base.num_rows
    left = []
    for file in base:
        rows, shared = changed.get(file.path, (in_base.num_rows, in_base.num_rows))
        is_exact = file.is_exact and not (shared or has_others)
        left.append(replace(file, row_count=max(file.row_count - (rows - shared), 0), is_exact=is_exact))
    return left


def _changed_between(files: Sequence[FileStatistics], changed: pa.Table, order: KeyOrder) -> dict[str, tuple[int, int]]:
    """
    Return, for each file, how many changed keys lie within its bounds, and how many of them also in another file's.

    Keys and bounds are sorted together, once.
    """
    names = plain_names(len(order.fields))
    try:
        lower, upper = (
            [pa.array(column, arrow_type(field)) for field, column in zip(order.fields, columns, strict=True)]
            for columns in (
                _columns([file.lower for file in files], order),
                _columns([file.upper for file in files], order),
            )
        )
    except (pa.ArrowException, OverflowError):
        return {}
    numbers = pa.array(range(len(files)), pa.int64())
    no_file = pa.nulls(changed.num_rows, pa.int64())
    marks = pa.concat_tables(
        [
            _marks(lower, names, _BEGINS, numbers),
            _marks([changed.column(name) for name in order.names], names, _KEY, no_file),
            _marks(upper, names, _ENDS, numbers),
        ]
    )
    # At the same value, a file's begin comes before keys, and its end after them.
    directions = ["descending" if field.descending else "ascending" for field in order.fields]
    by_key = [(name, direction, "at_start") for name, direction in zip(names, directions, strict=True)]
    marks = marks.take(pc.sort_indices(marks, sort_keys=[*by_key, ("kind", "ascending", "at_start")]))
    is_key = pc.equal(marks.column("kind"), _KEY)
    around = pc.cumulative_sum(pc.negate(marks.column("kind")))
    shared = pc.and_(is_key, pc.greater(around, 1))
    passed = [pc.cumulative_sum(mask.cast(pa.int64())) for mask in (is_key, shared)]
    found: list[list[int]] = [[0, 0] for _ in files]
    for kind, sign in ((_BEGINS, -1), (_ENDS, 1)):
        mask = pc.equal(marks.column("kind"), kind)
        of_files = [column.filter(mask).to_pylist() for column in (marks.column("file"), *passed)]
        for number, keys, also_elsewhere in zip(*of_files, strict=True):
            found[number][0] += sign * keys
            found[number][1] += sign * also_elsewhere
    return {file.path: (keys, elsewhere) for file, (keys, elsewhere) in zip(files, found, strict=True)}


_BEGINS, _KEY, _ENDS = -1, 0, 1


def _columns(bounds: Sequence[Position], order: KeyOrder) -> list[list[KeyValue | None]]:
    return [[bound[number] for bound in bounds] for number in range(len(order.fields))]


def _marks(columns: Sequence[pa.Array | pa.ChunkedArray], names: Sequence[str], kind: int, files: pa.Array) -> pa.Table:
    """Return key columns with a kind and a file; booleans as numbers, because Arrow does not sort booleans."""
    sortable = [column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column for column in columns]
    kinds = pa.repeat(pa.scalar(kind, pa.int8()), len(files))
    return pa.table([*sortable, kinds, files], [*names, "kind", "file"])

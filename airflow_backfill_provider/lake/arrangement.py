"""
The arrangement as its Delta log shows it: whether it is made, and the data files that a chunk is planned from.

The arrangement is a Delta replica of the columns that a job uses, laid out by (vnode, key); Spark writes it
(:mod:`airflow_backfill_provider.engine.arrangement`). It is made by one commit, so a table that exists is whole.
Ports ``ReplicatedStateTable``.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as arrow_fs
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler

from airflow_backfill_provider.core.columns import OwnColumns
from airflow_backfill_provider.core.errors import DataFileError, StateError, TableLogError
from airflow_backfill_provider.core.keys import KeyField, KeyOrder, KeyRange, Position
from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.core.planner import FileStatistics, KeyIndex
from airflow_backfill_provider.lake.data_files import DataFiles
from airflow_backfill_provider.lake.key_index import (
    ArrowKeyIndex,
    arrow_type,
    in_key_order,
    keys_within,
    leading_values,
    nth_key,
)
from airflow_backfill_provider.storage import log_errors, storage_errors

PIECES = 256
"""How finely the changes are cut for a planner."""


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
        """Tell whether the arrangement is made."""
        with storage_errors(self.path):
            return DeltaTable.is_deltatable(self.path, storage_options=self._options or None)

    def statistics(self, order: KeyOrder, base_epoch: int, own: OwnColumns) -> tuple[list[FileStatistics], KeyIndex]:
        """
        Return files with bounds of (vnode, key), and the means to read exact keys, for a planner of chunks.

        A row that changed after the base was made is there once for each epoch that changed it. So that a planner
        counts rows as a chunk will find them, the files stand for something else than what is stored: those of the base
        are without the rows that changed, and the changes come as files of their own which hold the newest rows alone.

        :param order: the order of (vnode, key).
        :param base_epoch: the epoch that the base is stamped with.
        :param own: the package's names in it.
        """
        with arrangement_errors(self.path):
            stored = self._stored()
            newest_epoch = {file.path: file.upper for file in stored.files(_by_epoch(own))}
            files = stored.files(order)
            log = [file for file in files if newest_epoch[file.path] != (base_epoch,)]
            if not log:
                return files, stored.keys(order)
            changed, is_live, is_new = _changed(stored, log, order, own)
        base = [file for file in files if newest_epoch[file.path] == (base_epoch,)]
        in_base = changed.filter(pc.invert(is_new))
        live = in_key_order(changed.filter(is_live), order)
        pieces = _pieces(live, order, size=sum(file.size for file in log))
        index = _LiveKeys(stored.keys(order), order, in_base, {file.path: keys for file, keys in pieces})
        return [*_without(base, in_base), *(file for file, _ in pieces)], index

    def smallest_of_base(self, base_epoch: int, own: OwnColumns) -> int:
        """
        Return the bytes of the smallest file of the base; 0 if the base has none.

        :param base_epoch: the epoch that the base is stamped with.
        :param own: the package's names in it.
        """
        with arrangement_errors(self.path):
            files = self._stored().files(_by_epoch(own))
        return min((file.size for file in files if file.upper == (base_epoch,)), default=0)

    def size(self) -> int:
        """Return the bytes of its data files."""
        with arrangement_errors(self.path):
            return self._stored().size()

    def drop(self) -> None:
        """Delete the table with its files, if it exists; a reader of it fails from then on."""
        # The log goes first: what is left after a crash is no table.
        if is_local(self.path):
            for folder in (Path(self.path, "_delta_log"), Path(self.path)):
                shutil.rmtree(folder, ignore_errors=True)
            return
        with storage_errors(self.path):
            storage = arrow_fs.PyFileSystem(DeltaStorageHandler(self.path, self._options))
            found = storage.get_file_info(arrow_fs.FileSelector("", recursive=True, allow_not_found=True))
            paths = [info.path for info in found if info.type is arrow_fs.FileType.File]
            for path in sorted(paths, key=lambda path: not path.startswith("_delta_log/")):
                storage.delete_file(path)

    def _stored(self) -> DataFiles:
        return DataFiles(DeltaTable(self.path, storage_options=self._options or None), self.path, self._options)


@contextmanager
def arrangement_errors(path: str) -> Iterator[None]:
    """
    Say that an arrangement cannot be used any more: nothing but a rebuild makes another one.

    :param path: its location.
    :raises StateError: if its log, or one of its data files, is damaged or gone.
    """
    try:
        with log_errors(path):
            yield
    except (TableLogError, DataFileError) as error:
        raise StateError(
            f"the arrangement at {path} is damaged ({error}); restore it from a copy, or rebuild the job"
        ) from error


class _LiveKeys:
    """
    Exact keys of the rows that a chunk finds.

    :param stored: keys as the base's files hold them.
    :param in_base: of these, the keys that changed.
    :param pieces: path → keys of what stands for the changes.
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

    def _keys(self, file: FileStatistics) -> pa.Table:
        if file.path not in self._known:
            keys = self._stored.read(file)
            # Null keys never match here; they are counted once too often, which only makes a chunk smaller.
            self._known[file.path] = keys.join(self._in_base, list(self._order.names), join_type="left anti")
        return self._known[file.path]


def _by_epoch(own: OwnColumns) -> KeyOrder:
    return KeyOrder((KeyField(name=own.epoch, type="long"),))


def _changed(
    stored: DataFiles, log: Sequence[FileStatistics], order: KeyOrder, own: OwnColumns
) -> tuple[pa.Table, pa.ChunkedArray, pa.ChunkedArray]:
    """Return each (vnode, key) that changed, whether each has a row now, and whether it had none in the base."""
    columns = [*order.names, own.epoch, own.is_upsert, own.appeared]
    entries = pa.concat_tables([_typed(stored.read(file.path, columns), order) for file in log]).sort_by(own.epoch)
    grouped = entries.group_by(list(order.names), use_threads=False)
    # Arrow names each result after its column, so by our prefix, which no key has.
    changed = grouped.aggregate([(own.is_upsert, "last"), (own.appeared, "first")])
    return changed.select(order.names), changed.column(f"{own.is_upsert}_last"), changed.column(f"{own.appeared}_first")


def _typed(entries: pa.Table, order: KeyOrder) -> pa.Table:
    for index, field in enumerate(order.fields):
        entries = entries.set_column(index, field.name, entries.column(field.name).cast(arrow_type(field)))
    return entries


def _pieces(live: pa.Table, order: KeyOrder, *, size: int) -> list[tuple[FileStatistics, pa.Table]]:
    """Cut the newest rows, in order, into pieces with exact bounds, as far as Python has their values."""
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


def _without(base: Sequence[FileStatistics], in_base: pa.Table) -> list[FileStatistics]:
    """
    Return the base's files with fewer rows: without those that changed.

    Which file a changed row lies in is told by its vnode alone; where several files share a vnode, they share its rows.
    """
    changed = {entry["values"]: entry["counts"] for entry in in_base.column(0).value_counts().to_pylist()}
    stored = [0] * (max(changed, default=0) + 2)
    for file in base:
        for vnode in _vnodes_of(file, len(stored)):
            stored[vnode] += file.row_count
    left = []
    for file in base:
        gone = sum(changed.get(vnode, 0) / stored[vnode] for vnode in _vnodes_of(file, len(stored)) if stored[vnode])
        left.append(replace(file, row_count=max(math.ceil(file.row_count * (1 - gone)), 0)))
    return left


def _vnodes_of(file: FileStatistics, limit: int) -> range:
    """Return the vnodes below a limit that a file may hold; of files in order, few vnodes are in two."""
    first, last = (file.lower[0], file.upper[0]) if file.lower and file.upper else (0, limit)
    return range(int(str(first)), min(int(str(last)) + 1, limit))

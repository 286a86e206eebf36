"""
The keys of the rows in some ranges, read with Arrow from the data files of one version of a Delta table.

A driver has them within milliseconds, where Spark plans a query before it begins to read. In contrast to a
:class:`~airflow_backfill_provider.lake.key_index.ArrowKeyIndex` nothing is counted that a deletion vector hides.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from airflow_backfill_provider.core.keys import KeyKind, KeyOrder, KeyRange
from airflow_backfill_provider.core.planner import FileStatistics, may_hold_some_of
from airflow_backfill_provider.lake.data_files import DataFiles
from airflow_backfill_provider.lake.key_index import ArrowKeyIndex, arrow_type, keys_within

MOST_KEYS = 2_000_000
"""Rows, of all files that a range reaches, whose keys a driver takes into its memory."""

MOST_FILES = 250
"""Files that a driver reads, some of them side by side; a cluster is quicker with more."""

MOST_MASKED = 100_000_000
"""Rows of a table whose deletion vectors a driver takes into its memory, a byte for each of them at worst."""

_READERS = 8


def live_keys(files: DataFiles, order: KeyOrder, ranges: Sequence[KeyRange]) -> pa.Table | None:
    """
    Return the keys of the rows in some ranges; a key that several rows have is there as often.

    :param order: the key's columns.
    :param ranges: none of which overlap.
    :returns: the key's columns in no order, or ``None`` if there are too many to look at in memory.
    :raises DataFileError: if a file cannot be read.
    """
    reaching = [file for file in files.files(order) if _may_reach(file, order, ranges)]
    rows = sum(file.row_count for file in reaching)
    if rows > MOST_KEYS or len(reaching) > MOST_FILES or files.row_count() > MOST_MASKED:
        return None
    masks = files.hidden_rows()
    if masks is None:
        return None
    index = files.keys(order)
    with ThreadPoolExecutor(max_workers=_READERS) as readers:
        live = readers.map(lambda file: _live(index, file, masks.get(file.path)), reaching)
        found = [keys_within(keys, order, covered) for keys in live for covered in ranges]
    return pa.concat_tables([_none(order), *found])


def distinct(keys: pa.Table) -> int:
    """Return how many different keys there are."""
    return int(keys.group_by(keys.column_names).aggregate([]).num_rows)


def _may_reach(file: FileStatistics, order: KeyOrder, ranges: Sequence[KeyRange]) -> bool:
    # deltalake rounds the bounds of decimals, which a plan can live with and a count cannot.
    if any(field.kind is KeyKind.DECIMAL for field in order.fields):
        return True
    return any(may_hold_some_of(file, covered, order) for covered in ranges)


def _none(order: KeyOrder) -> pa.Table:
    return pa.table({field.name: pa.array([], arrow_type(field)) for field in order.fields})


def _live(index: ArrowKeyIndex, file: FileStatistics, mask: pa.Array | None) -> pa.Table:
    keys = index.read(file)
    if mask is None:
        return keys
    behind = max(keys.num_rows - len(mask), 0)
    return keys.filter(pa.concat_arrays([mask.slice(0, keys.num_rows), pa.array([True] * behind, pa.bool_())]))

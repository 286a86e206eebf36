"""
Finds out without Spark that no two rows have one key, of keys that this process can read itself.

A key is one number of 64 bits here. Equal keys have equal numbers, and different ones hardly ever do. So if no number
is there twice, no key is; and if one is, Spark has to look.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from airflow_backfill_provider.lake.tables.stored_keys import StoredKeys

Numbers = NDArray[np.int64]

_FACTOR = np.int64(-7046029254386353131)
"""An odd number by which others become ones far from each other, so that half of them are negative."""

_NULL = 6148914691236517205
"""The number of a null."""


def count_if_single(keys: StoredKeys) -> int | None:
    """Return the number of rows if each has another key for certain; ``None`` if Spark has to look."""
    files = keys.of_each_file(_numbers)
    if files is None:
        return None
    rows = sum(map(len, files))
    return rows if _are_in_order(files) or distinct_values(np.concatenate(files) * _FACTOR) == rows else None


def are_single(keys: StoredKeys, wanted: pa.Table) -> bool:
    """
    Return whether for certain no two rows have one of some keys.

    :param wanted: these keys, in the key's order.
    """
    known = np.unique(_numbers(wanted))
    if not len(known):
        return True
    files = keys.of_each_file(lambda found: _among(_numbers(found), known))
    if files is None:
        return False
    found = np.concatenate([known[:0], *files])
    return len(np.unique(found)) == len(found)


def distinct_values(values: Numbers) -> int:
    """Return the number of distinct values, about half of which are negative; sorts parts of them in place."""
    # Two halves, because Spark leaves the cores idle by now.
    with ThreadPoolExecutor(max_workers=2) as sorters:
        return sum(sorters.map(_distinct, (values[values < 0], values[values >= 0])))


def _distinct(values: Numbers) -> int:
    """Return the number of distinct values. A hash table of so many would need ten times the memory of sorting them."""
    values.sort()
    return min(len(values), 1) + int((values[1:] != values[:-1]).sum())


def _numbers(keys: pa.Table) -> Numbers:
    """Return a number for each key."""
    columns = (column.cast(pa.int64()).fill_null(_NULL).to_numpy() for column in keys.columns)
    return reduce(lambda numbers, values: numbers * _FACTOR + values, columns)


def _among(values: Numbers, known: Numbers) -> Numbers:
    """Return those values that are among some others, which are sorted."""
    # To compare a value costs less than to look it up, and new keys often follow each other.
    near: Numbers = values[(values >= known[0]) & (values <= known[-1])]
    return near[np.isin(near, known)]


def _are_in_order(files: Sequence[Numbers]) -> bool:
    """Return whether each value is greater than the one before it, in files in the order of their first values."""
    found = sorted((values for values in files if len(values)), key=lambda values: int(values[0]))
    follow = all(before[-1] < after[0] for before, after in pairwise(found))
    return follow and all(bool((values[1:] > values[:-1]).all()) for values in found)

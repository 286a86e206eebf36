"""
Estimates how many rows a job reads in total, from the statistics of the upstream's files. Progress is relative to it.

The estimate assumes that keys are spread evenly between the bounds of their file. It depends only on the files, so it
is the same for all callers. For a job over all keys it costs nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyOrder, KeyRange, KeyValue, Position

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_BYTES = 8
"""The number of bytes after the common prefix of texts by which their distance is measured."""


def rows_of(files: Sequence[FileStatistics], job: BackfillJob, order: KeyOrder) -> int:
    """
    Estimate how many rows a job reads in total.

    Assumes that all vnodes have the same number of rows.

    :param files: the upstream's files.
    :param order: the key's order.
    """
    bounds = job.restrict_to.keys
    keys = KeyRange(order.decode(bounds.after), order.decode(bounds.up_to))
    return rows_within(files, keys, order) * len(job.vnodes) // job.vnode_count


def rows_within(files: Sequence[FileStatistics], covered: KeyRange, order: KeyOrder) -> int:
    """
    Estimate the number of rows in a range of keys.

    For a file without bounds, the average share of the other files is assumed.

    :param files: the files.
    :param covered: the range.
    :param order: the key's order.
    """
    return round(sum(file.row_count for file in files) * _share_within(files, covered, order))


def _share_within(files: Sequence[FileStatistics], covered: KeyRange, order: KeyOrder) -> float:
    if covered == EVERYTHING:
        return 1.0
    known, within = 0, 0.0
    for file in files:
        begin = 0.0 if covered.after is None else _share_up_to(covered.after, file, order)
        end = 1.0 if covered.up_to is None else _share_up_to(covered.up_to, file, order)
        if begin is not None and end is not None:
            known += file.row_count
            within += file.row_count * max(end - begin, 0.0)
    return within / known if known else 1.0


def _share_up_to(position: Position, file: FileStatistics, order: KeyOrder) -> float | None:
    """Return the share of a file's keys at or before a position; ``None`` if its statistics have no bounds for it."""
    for index, value in enumerate(position):
        if index >= min(len(file.lower), len(file.upper)):
            return None
        column = KeyOrder(order.fields[index : index + 1])
        first, last = file.lower[index], file.upper[index]
        if column.compare((value,), (first,)) < 0:
            return 0.0
        # The next column's bounds are only meaningful if all keys have the same value in this one.
        if column.compare((value,), (last,)) >= (first == last):
            return 1.0
        if first != last:
            return _between(first, last, value)
    return 1.0


def _between(first: KeyValue | None, last: KeyValue | None, value: KeyValue | None) -> float | None:
    """Return the share of values from ``first`` to ``last`` that are at or before ``value``; ``None`` for nulls."""
    if first is None or last is None or value is None:
        return None
    begin, end, at = _numbers(first, last, value)
    if begin == end:
        # Texts that differ only after the compared bytes.
        return 1.0
    # Whole numbers and days are discrete, all other values are continuous.
    step = 0 if isinstance(value, str | bytes | Decimal | dt.datetime) else 1 if end > begin else -1
    return float((at - begin + step) / (end - begin + step))


def _numbers(*values: KeyValue) -> Sequence[Fraction]:
    """Return values of one column as numbers with the same relative distances."""
    first = values[0]
    if isinstance(first, str | bytes):
        texts = [value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value for value in values]
        return [*map(Fraction, _numbers_of_texts([text for text in texts if isinstance(text, bytes)]))]
    return [Fraction(_number(value)) for value in values]


def _numbers_of_texts(texts: Sequence[bytes]) -> list[int]:
    common = 0
    while all(len(text) > common for text in texts) and len({text[common] for text in texts}) == 1:
        common += 1
    return [int.from_bytes(text[common : common + _BYTES].ljust(_BYTES, b"\0"), "big") for text in texts]


def _number(value: KeyValue) -> int | Decimal:
    if isinstance(value, dt.datetime):
        instant = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        return (instant - _EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return value.toordinal()
    if isinstance(value, int | Decimal):
        return value
    raise TypeError(f"a key's value is a {type(value).__name__}")

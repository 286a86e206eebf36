"""Statistics of an upstream's blocks, such as data files: the number of rows, and bounds of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange, KeyValue, Position


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatistics:
    """
    The statistics of one data file, or of another block of rows, as the source knows them.

    :param path: identifies the block to a :class:`KeyIndex`.
    :param row_count: rows of the file that belong to the snapshot and to the job.
    :param hidden_rows: other stored rows: hidden by a deletion vector, or not part of the job.
    :param is_exact: whether ``row_count`` is exact; if not, only reading the keys gives the number.
    :param size: bytes.
    :param lower: a lower bound of the file's keys in key order: values of the leading key columns that have statistics;
        empty if none has.
    :param upper: an upper bound likewise.
    """

    path: str
    row_count: int
    hidden_rows: int = 0
    is_exact: bool = True
    size: int = 0
    lower: tuple[KeyValue | None, ...] = ()
    upper: tuple[KeyValue | None, ...] = ()

    @property
    def stored_rows(self) -> int:
        """Rows that reading the file scans."""
        return self.row_count + self.hidden_rows


def mean_row_bytes(files: Sequence[FileStatistics]) -> float | None:
    """Return the average size of a stored row in bytes; ``None`` if the statistics don't say it."""
    rows, size = sum(file.stored_rows for file in files), sum(file.size for file in files)
    return size / rows if rows and size else None


class KeyIndex(Protocol):
    """Gives exact keys of blocks where statistics are too coarse."""

    def count(self, file: FileStatistics, within: KeyRange) -> int:
        """Return the number of the file's keys in a range."""
        ...

    def nth(self, files: Sequence[FileStatistics], within: KeyRange, n: int) -> Position | None:
        """Return the n-th smallest (from 1) of the files' keys in a range; ``None`` if there are fewer."""
        ...


def may_hold_some_of(file: FileStatistics, covered: KeyRange, order: KeyOrder) -> bool:
    """Return whether a file may have keys in a range."""
    # A file that ends exactly at the position counts, because bounds of strings and timestamps are rounded.
    reaches = covered.after is None or order.compare(file.upper, covered.after) >= 0
    return reaches and (covered.up_to is None or order.compare(file.lower, covered.up_to) <= 0)


def lies_within(file: FileStatistics, covered: KeyRange, order: KeyOrder) -> bool:
    """Return whether all keys of a file are certain to lie in a range; bounds are rounded outwards, if at all."""
    begins = covered.after is None or order.compare(file.lower, covered.after) > 0
    ends = covered.up_to is None or (
        len(file.upper) >= len(covered.up_to) and order.compare(file.upper, covered.up_to) <= 0
    )
    return begins and ends


def is_full(bound: tuple[KeyValue | None, ...], order: KeyOrder) -> bool:
    """Return whether a bound has a value for each column of the key."""
    return len(bound) == len(order.fields)

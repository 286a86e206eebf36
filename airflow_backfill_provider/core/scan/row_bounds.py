"""
Bounds of the number of rows in some ranges of keys, from the statistics of files.

The number of rows that epochs have read is checked against these bounds. Statistics may be wrong, so a number outside
of the bounds proves nothing. It is only a reason to count the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_backfill_provider.core.scan.file_statistics import FileStatistics, lies_within, may_hold_some_of
from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange

UNKNOWN = 2**62
"""Stands for an unknown number of rows of a file."""


@dataclass(frozen=True, slots=True)
class RowBounds:
    """Bounds of a number of rows."""

    at_least: int
    at_most: int

    def __contains__(self, rows: int) -> bool:
        """Return whether a number lies within the bounds."""
        return self.at_least <= rows <= self.at_most


def row_bounds(
    files: Sequence[FileStatistics], ranges: Sequence[KeyRange], order: KeyOrder, *, share: bool
) -> RowBounds:
    """
    Return bounds of the number of rows of some files in some ranges.

    :param files: the files.
    :param ranges: ranges that do not overlap.
    :param order: the key's order.
    :param share: whether only some of the rows count, such as those of some vnodes.
    """
    inside = [file for file in files if any(lies_within(file, covered, order) for covered in ranges)]
    near = [file for file in files if any(may_hold_some_of(file, covered, order) for covered in ranges)]
    return RowBounds(
        at_least=0 if share else sum(file.row_count for file in inside if file.is_exact),
        at_most=sum(file.row_count if file.is_exact else UNKNOWN for file in near),
    )

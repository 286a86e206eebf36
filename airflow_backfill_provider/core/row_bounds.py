"""
How many rows lie in some ranges of keys, at least and at most, as far as the statistics of files tell.

What epochs read is held against this. Statistics may be wrong themselves, so a number outside of the bounds proves
nothing yet: it is the reason to count the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_backfill_provider.core.file_statistics import FileStatistics, lies_within, may_hold_some_of
from airflow_backfill_provider.core.keys import KeyOrder, KeyRange

UNKNOWN = 2**62
"""Stands for the rows of a file that nobody has counted."""


@dataclass(frozen=True, slots=True)
class RowBounds:
    """A number of rows that is not known exactly."""

    at_least: int
    at_most: int

    def __contains__(self, rows: int) -> bool:
        """Tell whether it may be this number."""
        return self.at_least <= rows <= self.at_most


def row_bounds(
    files: Sequence[FileStatistics], ranges: Sequence[KeyRange], order: KeyOrder, *, share: bool
) -> RowBounds:
    """
    Return how many rows of some files lie in some ranges.

    :param files: the files.
    :param ranges: none of which overlap.
    :param order: the key's order.
    :param share: whether only a share of the rows counts, such as those of some vnodes.
    """
    inside = [file for file in files if any(lies_within(file, covered, order) for covered in ranges)]
    near = [file for file in files if any(may_hold_some_of(file, covered, order) for covered in ranges)]
    return RowBounds(
        at_least=0 if share else sum(file.row_count for file in inside if file.is_exact),
        at_most=sum(file.row_count if file.is_exact else UNKNOWN for file in near),
    )

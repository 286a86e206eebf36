"""
How many rows of a job lie in some ranges of keys, found without Spark.

A file that lies in a range as a whole counts with the number of its rows. Of a file that a range cuts, the keys are
read and compared here. So the number does not depend on how Spark and Delta skip data: neither on the conditions that
they derive from ours, nor on the statistics inside of files. It depends on the log's statistics only for which files
lie in a range, which do not, and which are cut. Of a small table, all keys are read, so it depends on no statistics at
all.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_backfill_provider.core.errors import DataFileError
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics, lies_within, may_hold_some_of
from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange
from airflow_backfill_provider.lake.tables.chunk_keys import ChunkKeys, JobVnodes
from airflow_backfill_provider.lake.tables.data_files import DataFiles

FEW_ROWS, FEW_FILES = 1_000_000, 100
"""The most rows and files of a table of which all keys are read: it takes a fraction of a second."""

MOST_READ = 20_000_000
"""The most rows of files that are cut. Reading the keys of more would take longer than the epoch's own scan of them."""


class RowsInRanges:
    """
    Counts the rows of a job in a version of its upstream.

    :param files: the data files.
    :param order: the key's columns.
    :param covered: the vnodes that the job covers.
    """

    def __init__(self, files: DataFiles, order: KeyOrder, covered: JobVnodes) -> None:
        self._files = files
        self._order = order
        self._covered = covered
        self._keys = ChunkKeys(files, order, covered)

    def count(self, ranges: Sequence[KeyRange]) -> int | None:
        """
        Return the number of rows in some ranges.

        :param ranges: ranges that do not overlap.
        :returns: ``None`` if it is not known exactly, or if too many rows would be read.
        """
        files = self._files.files(self._order)
        is_small = len(files) <= FEW_FILES and sum(file.stored_rows for file in files) <= FEW_ROWS
        total, cut = 0, []
        for file in files:
            near = [covered for covered in ranges if is_small or may_hold_some_of(file, covered, self._order)]
            is_counted = file.is_exact and self._covered.share == 1 and not is_small
            if is_counted and any(lies_within(file, covered, self._order) for covered in near):
                total += file.row_count
            elif near:
                cut.append((file, near))
        if sum(file.stored_rows for file, _ in cut) > MOST_READ:
            return None
        counts = [self._in_file(file, covered) for file, near in cut for covered in near]
        known = [count for count in counts if count is not None]
        return total + sum(known) if len(known) == len(counts) else None

    def _in_file(self, file: FileStatistics, covered: KeyRange) -> int | None:
        try:
            return self._keys.exact_count(file, covered)
        except DataFileError:
            # The epoch that reads the file on Spark says what is wrong with it. An earlier one can do without.
            return None

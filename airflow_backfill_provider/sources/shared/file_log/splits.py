"""The splits of a file log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from airflow_backfill_provider.core.errors import ChangeFeedGapError
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.shared.file_log.entries import SPLIT_COUNT, FilePart
from airflow_backfill_provider.sources.split_offsets import offset_of
from airflow_backfill_provider.sources.splits import Splits


class FileSplits(Splits):
    """
    The splits of a file log. Every place has a row, except for those of files that were withdrawn.

    :param gone_among: returns what files that can no longer be read had of some places.
    :param problem_with: returns what to say if an epoch needs such files.
    :param missing_in: returns how many of some places have no row.
    """

    has_gaps: ClassVar[bool] = False

    def __init__(
        self,
        gone_among: Callable[[Sequence[SplitRange]], Sequence[FilePart]],
        problem_with: Callable[[Sequence[FilePart]], str],
        missing_in: Callable[[SplitRange], int],
    ) -> None:
        self._gone_among = gone_among
        self._problem_with = problem_with
        self._missing_in = missing_in

    def most_rows(self, places: SplitRange) -> int:
        """Return the number of places that have a row."""
        return places.size - self._missing_in(places)

    def beginnings(self) -> Offset:
        """Return the offset before all rows: a job begins with every file, and no file is ever left out."""
        return offset_of(dict.fromkeys(range(SPLIT_COUNT), 0))

    def require_kept(self, ranges: Sequence[SplitRange]) -> tuple[str, ...]:
        """Check that the files with some places are there and unchanged."""
        if ranges and (gone := self._gone_among(ranges)):
            raise ChangeFeedGapError(self._problem_with(gone))
        return ()

    def lost(self, ranges: Sequence[SplitRange]) -> str:
        """Return the first of the files that are gone or changed, and how many they are."""
        gone = self._gone_among(ranges)
        if not gone:
            return ""
        files = {part.placed.file.path for part in gone}
        return f"file {gone[0].placed.file.path} is gone or was changed ({len(files)} such files)"

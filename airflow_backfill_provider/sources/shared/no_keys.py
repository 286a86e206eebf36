"""The index of keys of a source that does not know them."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_backfill_provider.core.scan.file_statistics import FileStatistics, KeyIndex
from airflow_backfill_provider.core.scan.keys import KeyRange, Position


class NoKeys(KeyIndex):
    """An index of blocks whose keys are not known."""

    def count(self, file: FileStatistics, within: KeyRange) -> int:
        """Return the estimate of all rows."""
        del within
        return file.row_count

    def nth(self, files: Sequence[FileStatistics], within: KeyRange, n: int) -> Position | None:
        """Return ``None``: no key is known."""
        del files, within, n
        return None

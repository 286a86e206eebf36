"""
The versions of a Delta table that a source keeps open, so that the next questions about them read no log again.

A version never changes, so it may stay open from epoch to epoch. Two are kept: an epoch reads its chunk and the end of
its window.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.written import Written
from airflow_backfill_provider.lake.tables.data_files import DataFiles


class _Opened(NamedTuple):
    """
    An opened version.

    :param listed_as: what identified its commit file in a listing; ``None`` if none showed it.
    """

    files: DataFiles
    listed_as: Written | None


class OpenVersions:
    """
    Opens versions, and keeps the last two open.

    :param log: the table's log.
    :param open_version: opens a version, or the newest one for ``None``.
    """

    def __init__(self, log: DeltaLog, open_version: Callable[[int | None], DataFiles]) -> None:
        self._log = log
        self._open = open_version
        self._kept: dict[int, _Opened] = {}

    def files(self, version: int) -> DataFiles:
        """Return the data files of a version."""
        kept = self._kept.get(version)
        return kept.files if kept else self._keep(self._open(version), self._log.as_listed(version))

    def as_listed(self, version: int | None) -> DataFiles:
        """Return the data files of a version, opened again unless listings of the log have the same commit there."""
        if version is None:
            return self._keep(self._open(None), None)
        kept, listed = self._kept.get(version), self._log.as_listed(version)
        if kept and listed is not None and kept.listed_as == listed:
            return kept.files
        return self._keep(self._open(version), listed)

    def _keep(self, files: DataFiles, listed: Written | None) -> DataFiles:
        others = [(number, kept) for number, kept in self._kept.items() if number != files.version]
        # Replaced at once, because another thread may look meanwhile.
        self._kept = dict([*others[-1:], (files.version, _Opened(files, listed))])
        return files

"""Watches the newest versions of tables; a look costs requests for two files per table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deltalake.exceptions import TableNotFoundError

from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.written import Written

Versions = tuple[tuple[int | None, Written | None], ...]


class VersionWatch:
    """
    Watches a table's newest version.

    Versions are consecutive, so nothing is new as long as the newest commit's file exists and the next one does not.
    An open ``DeltaTable`` would not do. When it is updated, it does not notice that the table was deleted, or was
    recreated with fewer versions; and it holds the names of all data files.

    :param location: the table's canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, location: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.log = DeltaLog(location, storage_options)
        self._latest: int | None = None
        self.written: Written | None = None
        """What identifies the newest commit's file; differs if the table was recreated."""

    def latest(self) -> int | None:
        """
        Return the newest version, ``None`` if there is no table.

        :raises StorageUnavailableError: if the storage does not answer.
        """
        known = self._latest
        try:
            here, after = (None, None) if known is None else self.log.written(known, known + 1)
            if here is None or after is not None:
                known = max(self.log.versions(), default=None)
                here = None if known is None else self.log.written(known)[0]
            self._latest, self.written = known, here
        except TableNotFoundError:
            # deltalake raises this for a local folder that does not exist.
            self._latest = self.written = None
        return self._latest


class VersionsWatch:
    """
    Watches the newest versions of several tables.

    :param locations: the tables' canonical locations.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, locations: Iterable[str], storage_options: Mapping[str, str]) -> None:
        self._tables = tuple(VersionWatch(location, storage_options) for location in locations)

    def latest(self) -> Versions:
        """
        Return each table's newest version, ``None`` if there is no table, with what identifies its commit file.

        :raises StorageUnavailableError: if the storage does not answer.
        """
        return tuple((table.latest(), table.written) for table in self._tables)

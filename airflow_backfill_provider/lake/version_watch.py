"""Looking at tables' newest versions again and again, for the price of looking for two files each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deltalake.exceptions import TableNotFoundError

from airflow_backfill_provider.lake.delta_log import DeltaLog, Written

Versions = tuple[tuple[int | None, Written | None], ...]


class VersionWatch:
    """
    Knows a table's newest version, and finds out whether there is a newer one.

    Versions are consecutive, so nothing is new as long as the newest commit's file is there and the next one's is not.
    An open ``DeltaTable`` would not do: brought up to date, it keeps the version of a table that was deleted, and until
    the new one has more versions also of one that was made anew; and it holds the names of all data files.

    :param location: the table's canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, location: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.log = DeltaLog(location, storage_options)
        self._latest: int | None = None
        self.written: Written | None = None
        """What the newest commit's file looked like at the last look; another one if the table was made anew."""

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
            # What deltalake says of a local folder that does not exist.
            self._latest = self.written = None
        return self._latest


class VersionsWatch:
    """
    Knows the newest versions of some tables.

    :param locations: the tables' canonical locations.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, locations: Iterable[str], storage_options: Mapping[str, str]) -> None:
        self._tables = tuple(VersionWatch(location, storage_options) for location in locations)

    def latest(self) -> Versions:
        """
        Return the newest versions, ``None`` where there is no table, and what their commit files look like.

        :raises StorageUnavailableError: if the storage does not answer.
        """
        return tuple((table.latest(), table.written) for table in self._tables)

"""A Delta table that is watched: held open, so that asking for its version again reads only what is new in its log."""

from __future__ import annotations

import time
from collections.abc import Mapping

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from airflow_backfill_provider.storage import storage_errors

REOPEN_SECONDS = 300.0
"""A table that was replaced at its path looks unchanged to one that was opened before, so none is held for ever."""


class OpenTable:
    """
    One table, for one thread at a time.

    :param location: the table's canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, location: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.location = location
        self._options = dict(storage_options or {}) or None
        self._table: DeltaTable | None = None
        self._opened = 0.0

    def version(self) -> int | None:
        """
        Return the newest version's number, ``None`` if there is no table that can be read.

        :raises StorageUnavailableError: if its storage does not answer.
        """
        with storage_errors(self.location):
            try:
                if self._table is None or time.monotonic() - self._opened > REOPEN_SECONDS:
                    self._opened = time.monotonic()
                    self._table = DeltaTable(self.location, storage_options=self._options)
                else:
                    self._table.update_incremental()
            except (DeltaError, ValueError):
                self._table = None
                return None
            return self._table.version()

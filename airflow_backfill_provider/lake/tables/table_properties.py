"""
The properties of Delta tables, as this process knows them.

To open a table reads its whole log, and an epoch asks for the properties of its view again and again. Properties change
only by a commit that writes them, so for a table in an object store, a listing of the log and its new commits are
enough.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from deltalake import DeltaTable

from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.lake.log.delta_log import DeltaLog, LogKey
from airflow_backfill_provider.lake.log.written import Written
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.storage import storage_errors

_MOST_TABLES = 64
_MOST_COMMITS = 10


@dataclass(frozen=True, slots=True)
class _Known:
    """
    A table's properties as of a version.

    :param written: what identifies this version's commit file.
    """

    version: int
    written: Written
    properties: Mapping[str, str]


class _KnownTables:
    """The tables that were asked for last."""

    def __init__(self) -> None:
        self._known: OrderedDict[LogKey, _Known] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: LogKey) -> _Known | None:
        """Return what is known of a table."""
        with self._lock:
            return self._known.get(key)

    def keep(self, key: LogKey, known: _Known) -> None:
        """Keep what is known of a table."""
        with self._lock:
            self._known[key] = known
            self._known.move_to_end(key)
            while len(self._known) > _MOST_TABLES:
                self._known.popitem(last=False)


_TABLES = _KnownTables()


def table_properties(location: str, storage_options: Mapping[str, str] | None = None) -> dict[str, str]:
    """
    Return the properties of the newest version of a table.

    :raises TableNotFoundError: if there is none.
    :raises DeltaError: if it cannot be read.
    :raises StorageUnavailableError: if its storage does not answer.
    """
    options = dict(storage_options or {})
    if is_local(location):
        return _opened(location, options)[1]
    log = DeltaLog(location, options)
    newest = max(log.versions(), default=-1)
    known = _TABLES.get(log.key)
    if known is None or not _is_unchanged(known, log, newest):
        # Of two listings, the older one: if the table is replaced right now, the next listing shows another commit.
        version, properties = _opened(location, options)
        if version != newest:
            return properties
    else:
        properties = dict(known.properties)
    written = log.as_listed(newest)
    if written is not None:
        _TABLES.keep(log.key, _Known(newest, written, properties))
    return dict(properties)


def _is_unchanged(known: _Known, log: DeltaLog, newest: int) -> bool:
    """Return whether a listed log goes on after the known version, without other properties."""
    if log.as_listed(known.version) != known.written or newest - known.version > _MOST_COMMITS:
        return False
    commits = (log.commit(version) for version in range(known.version + 1, newest + 1))
    return all(commit is not None and not commit.replaces_metadata for commit in commits)


def _opened(location: str, options: dict[str, str]) -> tuple[int, dict[str, str]]:
    with storage_errors(location):
        table = DeltaTable(location, storage_options=options_of(location, options))
        return table.version(), {name: str(value) for name, value in table.metadata().configuration.items()}

"""
The rows that were read ahead, without a JVM: how far they reach, and the files that a chunk is chosen from.

Each reading ahead is one commit. Its stamp says which keys it covers and after which offset its rows need changes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from urllib.parse import unquote

from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import DataFileError, StateError, TableLogError
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics, KeyIndex
from airflow_backfill_provider.core.scan.keys import EncodedPosition, KeyOrder, KeyRange, Position
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.lake.log.delta_log import DeltaLog, stamp_of
from airflow_backfill_provider.lake.log.dropping import drop_table
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.storage import log_errors
from airflow_backfill_provider.lake.tables.data_files import DataFiles
from airflow_backfill_provider.lake.tables.existing import is_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """
    Rows that one epoch read ahead.

    :param epoch: the epoch.
    :param covered: the keys that it covers.
    :param changes_after: an offset whose transactions are in the rows; later ones may be missing.
    :param server_run: see :class:`~airflow_backfill_provider.sources.base.ReadingStart`.
    """

    epoch: int
    covered: KeyRange
    changes_after: Offset
    server_run: str

    def ends_by(self, position: Position | None, order: KeyOrder) -> bool:
        """
        Return whether all of its keys lie at or before a position.

        :param position: ``None`` for no position.
        """
        end = self.covered.up_to
        return end is not None and position is not None and order.compare(end, position) <= 0

    def facts(self, order: KeyOrder) -> dict[str, object]:
        """Return the fields of the stamp of its commit."""
        return {
            "after": order.encode(self.covered.after),
            "up_to": order.encode(self.covered.up_to),
            "changes_after": self.changes_after.model_dump(mode="json"),
            "server_run": self.server_run,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedReading(Reading):
    """
    A reading whose rows are in the table.

    :param committed_at: when they were committed.
    :param files: the data files that they lie in.
    """

    committed_at: dt.datetime
    files: frozenset[str]


class ReadAheadFiles:
    """
    Reads the log of the table of rows that were read ahead.

    :param path: canonical location of the table.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, path: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.path = path
        self._options = dict(storage_options or {})

    def exists(self) -> bool:
        """Return whether the table exists."""
        return is_table(self.path, self._options)

    def readings(self, order: KeyOrder, *, before: int | None = None) -> list[CommittedReading]:
        """
        Return what was read ahead, from the first key on.

        What was read again counts once, as it was read last.

        :param before: leave out this epoch and later ones.
        :raises StateError: if the log is damaged.
        """
        found = []
        with read_ahead_errors(self.path):
            log = DeltaLog(self.path, self._options)
            for version in log.versions():
                commit = log.commit(version)
                if commit is not None and "changes_after" in (stamp := stamp_of(commit)):
                    found.append(_reading(stamp, commit.timestamp, _added(log, version), order))
        return _without_repeated([reading for reading in found if before is None or reading.epoch < before], order)

    def statistics(
        self, order: KeyOrder, readings: Iterable[CommittedReading]
    ) -> tuple[Sequence[FileStatistics], KeyIndex]:
        """
        Return the files of some readings with bounds of their keys, and an index of exact keys.

        The table also has rows that do not count, because they were read again.
        """
        counting = frozenset(chain.from_iterable(reading.files for reading in readings))
        with read_ahead_errors(self.path):
            stored = DataFiles(
                DeltaTable(self.path, storage_options=options_of(self.path, self._options)), self.path, self._options
            )
            return [file for file in stored.files(order) if file.path in counting], stored.keys(order)

    def drop(self) -> None:
        """Delete the table, if it exists."""
        drop_table(self.path, self._options)


def _without_repeated(readings: Sequence[CommittedReading], order: KeyOrder) -> list[CommittedReading]:
    """Leave out what was read again: a later reading begins where it began, or before."""
    found: list[CommittedReading] = []
    for reading in readings:
        while found and _begins_by(reading, found[-1], order):
            found.pop()
        found.append(reading)
    return found


def _begins_by(later: Reading, earlier: Reading, order: KeyOrder) -> bool:
    if later.covered.after is None or earlier.covered.after is None:
        return later.covered.after is None
    return order.compare(later.covered.after, earlier.covered.after) <= 0


def _added(log: DeltaLog, version: int) -> frozenset[str]:
    """Return the data files that a commit added."""
    return frozenset(unquote(str(action["add"]["path"])) for action in log.actions(version) or () if "add" in action)


def _reading(
    stamp: Mapping[str, object], committed_at: dt.datetime, files: frozenset[str], order: KeyOrder
) -> CommittedReading:
    def position(name: str) -> EncodedPosition | None:
        value = stamp[name]
        if value is not None and not isinstance(value, list):
            raise TypeError(f"the stamp's {name} is not a position")
        return None if value is None else tuple(value)

    return CommittedReading(
        epoch=int(str(stamp["epoch"])),
        covered=KeyRange(order.decode(position("after")), order.decode(position("up_to"))),
        changes_after=Offset.model_validate(stamp["changes_after"]),
        server_run=str(stamp["server_run"]),
        committed_at=committed_at,
        files=files,
    )


@contextmanager
def read_ahead_errors(path: str) -> Iterator[None]:
    """
    Translate errors of a damaged table into one that says what to do.

    :raises StateError: if its log or one of its data files is damaged or gone.
    """
    try:
        with log_errors(path):
            yield
    except (TableLogError, DataFileError) as error:
        raise StateError(
            f"the rows that were read ahead, at {path}, are damaged ({error}); restore them, or rebuild the job"
        ) from error

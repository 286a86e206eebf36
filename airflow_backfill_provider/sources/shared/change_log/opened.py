"""
The opened Delta table of a change log: its newest version, rows of it by a condition, and errors that name the log.

The log is written by this package alone, and the first column is the offset. So its statistics can be trusted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from airflow_backfill_provider.core.errors import (
    BackfillError,
    ChangeFeedGapError,
    ConcurrentUpdateError,
    DataFileError,
)
from airflow_backfill_provider.lake.files.rows import read_rows
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.storage import (
    got_no_answer,
    one_line,
    panics_as_errors,
    storage_errors,
    storage_unavailable,
)
from airflow_backfill_provider.sources.shared.change_log.conditions import NEWEST_FIRST


class OpenedLog:
    """
    A change log's table, opened when it is needed first.

    :param location: the table's canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, location: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.location = location
        self.storage_options = dict(storage_options or {})
        self._opened: DeltaTable | None = None

    def existing(self) -> DeltaTable:
        """
        Return the newest version.

        :raises ChangeFeedGapError: if the log is gone.
        """
        try:
            return self.newest()
        except TableNotFoundError as error:
            raise self.gone() from error

    def newest(self) -> DeltaTable:
        """
        Return the newest version.

        :raises TableNotFoundError: if there is no table.
        """
        with storage_errors(self.location):
            if self._opened is None:
                self._opened = DeltaTable(
                    self.location, storage_options=options_of(self.location, self.storage_options)
                )
            else:
                self._opened.update_incremental()
        return self._opened

    def written_at(self) -> dt.datetime | None:
        """Return when the newest version was written; ``None`` if there is no table."""
        try:
            version = self.newest().version()
        except TableNotFoundError:
            return None
        commit = DeltaLog(self.location, self.storage_options).commit(version)
        return None if commit is None else commit.timestamp

    def as_asked(self) -> DeltaTable:
        """Return the version that was read last; the newest one if none was."""
        return self._opened or self.existing()

    def forget(self) -> None:
        """Open the table anew next time, as is needed after a write."""
        self._opened = None

    def rows(
        self, columns: Sequence[str], where: str, ending: str = "", *, table: DeltaTable | None = None
    ) -> pa.Table:
        """
        Return the columns of the rows that match.

        :param where: a condition in SQL.
        :param ending: what follows the condition, such as an order.
        :param table: a version to read; ``None`` for the newest one.
        :raises DataFileError: if files of the log are missing or damaged.
        :raises ChangeFeedGapError: if the log is gone.
        """
        opened = table or self.existing()
        try:
            with storage_errors(self.location), panics_as_errors():
                return read_rows(opened, ", ".join(f'"{name}"' for name in columns), where=where, ending=ending)
        except BackfillError:
            raise
        except Exception as error:
            if got_no_answer(error):
                raise storage_unavailable(self.location, error) from error
            raise DataFileError(
                f"the change log at {self.location} cannot be read ({one_line(error)}); restore it from a copy, or "
                "rebuild the job"
            ) from error

    def newest_row(self, columns: Sequence[str], where: str, *, up_to: int | None = None) -> dict[str, Any] | None:
        """
        Return the matching row with the greatest offset; reads no more of the log's end than it takes.

        :param up_to: an offset after which no row matches.
        :raises ChangeFeedGapError: if the log is gone.
        """
        table = self.existing()
        for begin in _beginnings(table, up_to):
            condition = f'"offset" >= {begin} AND {where}'
            found = self.rows(columns, condition, f"{NEWEST_FIRST} LIMIT 1", table=table)
            if found.num_rows:
                return dict(found.to_pylist()[0])
        return None

    def gone(self) -> ChangeFeedGapError:
        """Return the error that says that the log is gone."""
        return ChangeFeedGapError(
            f"the change log at {self.location} is gone, and the database does not return its changes again; restore "
            "it, or rebuild the job"
        )

    def overtaken(self) -> ConcurrentUpdateError:
        """Return the error that says that another process wrote to the log meanwhile."""
        return ConcurrentUpdateError(f"another process landed changes into {self.location} at the same time; try again")


def _beginnings(table: DeltaTable, up_to: int | None) -> Iterator[int]:
    """
    Yield offsets from which on to look for the newest row: first where the last file begins, at last where all begin.

    :param up_to: the last offset of interest; ``None`` for the end.
    """
    files = pa.table(table.get_add_actions(flatten=True))
    begins = files["min.offset"].to_pylist() if files.num_rows else []
    if None in begins:
        yield 0
        return
    wanted = sorted({begin for begin in begins if up_to is None or begin <= up_to}, reverse=True)
    number = 0
    while number < len(wanted) - 1:
        yield wanted[number]
        # Twice as many each time: few questions, if the row is old.
        number = 2 * number + 2
    yield from wanted[-1:]

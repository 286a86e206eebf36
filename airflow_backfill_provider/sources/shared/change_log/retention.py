"""
Cleans a change log up: removes changes that are older than they are kept, and puts small files together.

What is removed becomes a gap, which says why, so that whoever needs it is refused.
"""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from airflow_backfill_provider.core.durations import duration
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint, reached
from airflow_backfill_provider.lake.log.retention import interval
from airflow_backfill_provider.lake.store.storage import storage_errors
from airflow_backfill_provider.sources.shared.change_log.changes import (
    SCHEMA,
    LoggedChange,
    LoggedKind,
    arrow_batches,
    gap,
    of_all_tables,
    stored,
)
from airflow_backfill_provider.sources.shared.change_log.commits import cleaned_at, recorded
from airflow_backfill_provider.sources.shared.change_log.conditions import (
    COMMITTED,
    NEWEST_FIRST,
    OLDEST_FIRST,
    of_kinds,
)
from airflow_backfill_provider.sources.shared.change_log.opened import OpenedLog
from airflow_backfill_provider.sources.shared.change_log.queries import ChangeLogQueries

KEPT_FOR_PROPERTY = "backfill.changesKeptFor"
"""The table property with how long a change stays in the log once it was landed, as Delta writes an interval."""

KEPT_FOR = "interval 30 days"
"""The property's value, unless somebody changes it."""

CLEANED_EVERY = dt.timedelta(days=1)
"""How often the log is cleaned up, at most."""

_LAST_TIME = "when the last transaction that was cleaned up was committed"
"""The text of a mark that stays in its place, so that the time of each offset after it is still known."""

_CHANGES = (
    f"NOT {of_kinds(LoggedKind.GAP, LoggedKind.LANDED, LoggedKind.PARTITIONS)} "
    f"AND NOT ({of_kinds(LoggedKind.MARK)} AND transaction = 0)"
)
"""The rows that make a clean-up worth while: not those that it writes itself."""


class ChangeLogRetention:
    """
    How long a change log keeps changes, and its clean-up.

    :param log: its opened table.
    """

    def __init__(self, log: OpenedLog) -> None:
        self._log = log

    def changes_kept_for(self) -> dt.timedelta | None:
        """Return how long a change stays once it was landed; ``None`` if the property cannot be read."""
        return interval(self._written_kept_for())

    def unreadable(self) -> str:
        """Return the property that says how long changes stay, if it cannot be read; otherwise an empty text."""
        written = self._written_kept_for()
        return "" if interval(written) is not None else f"{KEPT_FOR_PROPERTY} = {written!r}"

    def _written_kept_for(self) -> str:
        return self._log.existing().metadata().configuration.get(KEPT_FOR_PROPERTY, KEPT_FOR)

    def is_clean_up_due(self, now: dt.datetime) -> bool:
        """Return whether the log was not cleaned up for a day."""
        last = cleaned_at(self._log.existing())
        return last is None or now - last >= CLEANED_EVERY

    def clean_up(self, now: dt.datetime, *, up_to: int | None = None) -> None:
        """
        Remove changes that have been in the log for longer than they are kept, and put small files together.

        Files that this replaces stay for a week, so that a reader that has begun can end.

        :param up_to: the offset after which nothing is removed; ``None`` for the end of the log.
        :raises ConcurrentUpdateError: if another process wrote to the log meanwhile; what is left is done next time.
        """
        kept_for = self.changes_kept_for()
        try:
            with storage_errors(self._log.location):
                if kept_for is not None:
                    self._remove_older(now, kept_for, up_to)
                self._note_landed(now)
                table = self._log.existing()
                table.optimize.compact(commit_properties=recorded())
                table.vacuum(dry_run=False)
        except CommitFailedError as error:
            raise self._log.overtaken() from error
        finally:
            self._log.forget()

    def _remove_older(self, now: dt.datetime, kept_for: dt.timedelta, up_to: int | None) -> None:
        """Replace the changes by a gap and what must stay, in one commit."""
        noted = self._log.rows(["offset", "committed_at"], of_kinds(LoggedKind.LANDED)).to_pylist()
        old = [row["offset"] for row in noted if now - row["committed_at"] >= kept_for]
        removed = min([max(old, default=0), *([] if up_to is None else [up_to])])
        table = self._log.existing()
        older = f'"offset" <= {removed}'
        if not self._log.rows(["offset"], f"{older} AND {_CHANGES}", "LIMIT 1", table=table).num_rows:
            return
        staying = pa.Table.from_batches(arrow_batches(self._staying(table, older, kept_for)))
        reached(CrashPoint.BEFORE_CLEAN_UP_COMMIT)
        write_deltalake(table, staying, mode="overwrite", predicate=older, commit_properties=recorded())
        reached(CrashPoint.AFTER_CLEAN_UP_COMMIT)

    def _staying(self, table: DeltaTable, older: str, kept_for: dt.timedelta) -> list[LoggedChange]:
        """
        Return what replaces old rows: a gap, when the last of them was committed, and each table's partitions.

        :param older: the condition for the old rows; at least one of them is a change.
        """
        is_logged = f"NOT {of_kinds(LoggedKind.LANDED)}"
        (last,), (committed,) = (
            self._log.rows(
                ["offset", "committed_at"], f"{older} AND {condition}", f"{NEWEST_FIRST} LIMIT 1", table=table
            ).to_pylist()
            for condition in (is_logged, COMMITTED)
        )
        why = (
            f"changes that were cleaned up {duration(kept_for.total_seconds())} after they were landed (table property "
            f"{KEPT_FOR_PROPERTY}; set it to longer than a job may ever pause)"
        )
        partitions = self._log.rows(
            SCHEMA.names, f"{older} AND {of_kinds(LoggedKind.PARTITIONS)}", OLDEST_FIRST, table=table
        ).to_pylist()
        return [
            gap(last["offset"], why, committed["committed_at"]),
            of_all_tables(LoggedKind.MARK, committed["offset"], committed["committed_at"], _LAST_TIME),
            *map(stored, {row["table"]: row for row in partitions}.values()),
        ]

    def _note_landed(self, now: dt.datetime) -> None:
        """Record how far the log is landed now, so that it is known later how long its changes have been in it."""
        table = self._log.existing()
        landed = ChangeLogQueries(self._log).landed_through
        noted = self._log.rows(["offset"], f'"offset" >= {landed} AND {of_kinds(LoggedKind.LANDED)}', table=table)
        rows = [] if noted.num_rows else [of_all_tables(LoggedKind.LANDED, landed, now)]
        write_deltalake(
            table,
            pa.RecordBatchReader.from_batches(SCHEMA, arrow_batches(rows)),
            mode="append",
            commit_properties=recorded(cleaned=now),
        )

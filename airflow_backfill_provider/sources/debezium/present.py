"""Reads the present rows of the table that events are about: from which version its changes are needed afterwards."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Protocol

from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_random_exponential

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
from airflow_backfill_provider.core.errors import DatabaseUnavailableError
from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange, Position
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.debezium.snapshot_table import SnapshotTable
from airflow_backfill_provider.sources.present_rows import PresentRows, ReadingStart
from airflow_backfill_provider.sources.shared.postgresql.transactions import UnseenTransactions

_PATIENCE_SECONDS = 60
"""How long to wait for a transaction that has events, but that readers do not see yet."""


class _NotSeenYetError(DatabaseUnavailableError):
    """Readers do not see a transaction yet that has events."""


class LandedEvents(Protocol):
    """What the table of events is asked about a reading of present rows."""

    @property
    def location(self) -> str:
        """The location of the table of events."""
        ...

    @property
    def created(self) -> ResolvedUpstream | None:
        """The columns that the job uses; ``None`` without a job."""
        ...

    @property
    def key_order(self) -> KeyOrder:
        """The key's columns, with their types in the events."""
        ...

    def latest(self) -> Offset:
        """Return the newest version."""
        ...

    def offset_at(self, instant: dt.datetime) -> Offset | None:
        """Return the newest version at an instant."""
        ...

    def transactions_among(self, offset: Offset, unseen: UnseenTransactions) -> frozenset[int]:
        """Return which of some transactions of the database have events at a version."""
        ...


class PresentTable(PresentRows):
    """
    The present rows of the table that events are about.

    :param events: the table of events.
    :param table: the database's table.
    :param events_within: the time from a commit in the database until its events are in the lake.
    """

    def __init__(self, events: LandedEvents, table: SnapshotTable, events_within: dt.timedelta) -> None:
        self._events = events
        self._table = table
        self._events_within = events_within

    def begin_reading(self) -> ReadingStart:
        """
        Return the newest version of the events, once readers see all of its transactions.

        A transaction's events may be there before others see the transaction, mostly with synchronous replication.

        :raises DatabaseUnavailableError: if that lasts.
        """
        server_run = self._table.server_run(self._used)
        newest = self._events.latest()
        unseen = self._table.unseen_transactions()
        if waiting := self._events.transactions_among(newest, unseen):
            self._wait_for(waiting)
        return ReadingStart(newest, server_run)

    @retry(
        retry=retry_if_exception_type(_NotSeenYetError),
        wait=wait_random_exponential(multiplier=0.2, max=5),
        stop=stop_after_delay(_PATIENCE_SECONDS),
        reraise=True,
    )
    def _wait_for(self, transactions: frozenset[int]) -> None:
        unseen = self._table.unseen_transactions()
        if waiting := [transaction for transaction in transactions if transaction in unseen]:
            raise _NotSeenYetError(
                f"{self._table.location}: transaction {waiting[0]} has events in {self._events.location}, but others "
                "do not see it yet; is a synchronous standby down? Try again"
            )

    def end_reading(self, name: str, server_run: str) -> bool:
        """
        Wait until what readers saw is on the server's disk; how long its events need is known from the job.

        A reading does not count if the table's columns or files were changed meanwhile.
        """
        del name
        return self._table.is_as_read(server_run, self._used) and self._table.has_kept_all(server_run)

    def seen_by(self, name: str, ended_by: dt.datetime, server_run: str) -> Offset | None:
        """
        Return the newest version at the time by which the events of all that readers saw are there.

        Nothing records that a reading was ended, so whether the server crashed is asked again.
        """
        del name
        complete_at = ended_by + self._events_within
        is_complete = dt.datetime.now(dt.UTC) >= complete_at and self._table.has_kept_all(server_run)
        return self._events.offset_at(complete_at) if is_complete else None

    @property
    def _used(self) -> frozenset[str]:
        """The columns that the job uses; without a job, all."""
        created = self._events.created
        columns = self._table.described.columns if created is None else created.columns
        return frozenset(column.name for column in columns)

    def sample_keys(self, most: int) -> Sequence[Position]:
        """Return the keys of some pages, thinned out."""
        return self._table.sample_keys(self._events.key_order, most)

    def first_rows(self, covered: KeyRange, rows: int) -> KeyRange:
        """Return the first part of a range of keys that has so many rows, by the key's index."""
        return self._table.first_rows(self._events.key_order, covered, rows)

    def rows_in(self, covered: KeyRange) -> int:
        """Count the rows in a range of keys, by the key's index."""
        return self._table.rows_in(self._events.key_order, covered)

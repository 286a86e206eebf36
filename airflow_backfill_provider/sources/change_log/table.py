"""
A change log's Delta table: lands changes once, and answers questions about them without a JVM.

Each landing is one commit, which also records how far the log is landed. It is made against exactly the version that
the landing read. So of two landings at the same time one fails, and starts over from where the other ended.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from airflow_backfill_provider.core.errors import (
    BackfillError,
    ChangeFeedGapError,
    ConcurrentUpdateError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.lake.dropping import drop_table
from airflow_backfill_provider.lake.storage import panics_as_errors, storage_errors
from airflow_backfill_provider.sources.change_log.changes import (
    OF_ROWS,
    SCHEMA,
    LoggedChange,
    LoggedKind,
    arrow_batches,
)

_LANDED = "airflow-backfill/landed"
"""The id of the transaction whose version is the offset up to which the log is landed."""

ORIGIN_PROPERTY = "backfill.changeLogOf"
"""The table property with what the log is of, such as a database and a slot."""

_HALF_OF_IDS = 1 << 31
"""Of two transaction ids of 32 bits, the later one is at most this far ahead."""

_OF_SINGLE_ROWS = tuple(kind.value for kind in (LoggedKind.INSERT, LoggedKind.UPDATE, LoggedKind.DELETE))
_OF_ROWS = tuple(kind.value for kind in OF_ROWS)

_COMMITTED = ds.field("kind") != LoggedKind.GAP.value
"""The rows that the database committed."""

OF_ALL_TABLES = ""
"""The table's id of a row that is of no table, or of all."""


@dataclass(frozen=True, slots=True)
class LoggedColumns:
    """
    A table's columns as of an offset.

    :param types: column → type, as Delta writes it, or a name in angle brackets if it has no counterpart.
    """

    offset: int
    types: Mapping[str, str]


class ChangeLog:
    """
    A change log.

    :param location: the table's canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, location: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.location = location
        self._options = dict(storage_options or {})
        self._opened: DeltaTable | None = None

    # ------------------------------------------------------------------------------------------------- landing

    def create(self, origin: str, after: int, *, at: dt.datetime) -> None:
        """
        Create the table, unless it exists.

        :param origin: what the log is of.
        :param after: the offset after which the log begins.
        :param at: the time now.
        :raises UpstreamReplacedError: if the table is the log of something else.
        """
        if self.exists():
            self.require_origin(origin)
            return
        table = self._created(origin)
        if table.transaction_version(_LANDED) is None:
            # If the commit fails, another process has recorded the beginning.
            with suppress(CommitFailedError), storage_errors(self.location):
                write_deltalake(
                    table,
                    pa.Table.from_batches(arrow_batches([_gap(after, "changes before the log began", at)])),
                    mode="append",
                    commit_properties=_landed_through(after),
                )
        self._opened = None
        self.require_origin(origin)

    def exists(self) -> bool:
        """Return whether the log was created, and its beginning is recorded."""
        try:
            return self._newest().transaction_version(_LANDED) is not None
        except TableNotFoundError:
            return False

    def require_origin(self, origin: str) -> None:
        """
        Refuse the log of something else.

        :raises UpstreamReplacedError: with both origins.
        :raises ChangeFeedGapError: if the log is gone.
        """
        found = self._existing().metadata().configuration.get(ORIGIN_PROPERTY)
        if found != origin:
            raise UpstreamReplacedError(
                f"the change log at {self.location} is of {found}, not of {origin}; give each database and slot its "
                "own change log, or rebuild the job"
            )

    def land(self, changes: Iterable[LoggedChange], *, after: int, through: int) -> None:
        """
        Append changes, in one commit.

        :param changes: all changes in ``(after, through]``.
        :param after: the offset through which the log must be landed before.
        :param through: the offset through which it is landed then.
        :raises ConcurrentUpdateError: if another process landed changes meanwhile.
        :raises ChangeFeedGapError: if the log is gone.
        """
        table = self._existing()
        if table.transaction_version(_LANDED) != after:
            raise self._overtaken()
        failures: list[BaseException] = []
        rows = pa.RecordBatchReader.from_batches(SCHEMA, _noting_failures(arrow_batches(changes), failures))
        try:
            with storage_errors(self.location):
                write_deltalake(table, rows, mode="append", commit_properties=_landed_through(through))
        except (DeltaError, BackfillError) as error:
            if failures:
                # deltalake has made a text of it, with which nobody could tell whether a retry helps.
                raise failures[0] from None
            if isinstance(error, CommitFailedError):
                raise self._overtaken() from error
            raise
        finally:
            self._opened = None

    def skip_to(self, offset: int, *, if_before: int, why: str, at: dt.datetime) -> None:
        """
        Leave out the changes up to an offset, if the log ends before another one; readers that need them are refused.

        :param why: why the changes are lost.
        :param at: the time now.
        :raises ConcurrentUpdateError: if another process landed changes meanwhile.
        """
        landed = self.landed_through
        if landed < if_before:
            self.land([_gap(offset, why, at)], after=landed, through=offset)

    def drop(self) -> None:
        """Delete the table, if it exists."""
        drop_table(self.location, self._options)
        self._opened = None

    @property
    def landed_through(self) -> int:
        """
        The offset through which the log is landed.

        :raises ChangeFeedGapError: if the log is gone.
        """
        landed = self._existing().transaction_version(_LANDED)
        if landed is None:
            raise self._gone()
        return landed

    # ------------------------------------------------------------------------------------------------ questions

    def has_changes(self, table: str, after: int, up_to: int) -> bool:
        """Return whether rows of a table changed in ``(after, up_to]``."""
        rows = self._select(["offset"], self._within(table, after, up_to) & ds.field("kind").isin(_OF_ROWS))
        return bool(rows.num_rows)

    def changed_since(self, table: str, after: int) -> dt.datetime | None:
        """Return when the oldest change of a table's rows after an offset was committed; ``None`` if there is none."""
        condition = (ds.field("offset") > after) & (ds.field("table") == table) & ds.field("kind").isin(_OF_ROWS)
        return min(self._select(["committed_at"], condition)["committed_at"].to_pylist(), default=None)

    def newest_of(self, table: str, up_to: int) -> int | None:
        """Return the offset of a table's newest row at or before an offset; ``None`` if there is none."""
        rows = self._select(["offset"], self._within(table, 0, up_to))
        return max(rows["offset"].to_pylist(), default=None)

    def committed_at(self, offset: int) -> dt.datetime | None:
        """Return when the newest transaction at or before an offset was committed; ``None`` if there is none."""
        rows = self._select(["offset", "committed_at"], (ds.field("offset") <= offset) & _COMMITTED)
        newest = rows.sort_by([("offset", "descending")]).slice(0, 1)
        return newest["committed_at"].to_pylist()[0] if newest.num_rows else None

    def offset_at(self, instant: dt.datetime) -> int | None:
        """Return the newest offset that was committed at or before an instant; ``None`` if the log begins later."""
        rows = self._select(["offset"], (ds.field("committed_at") <= instant) & _COMMITTED)
        return max(rows["offset"].to_pylist(), default=None)

    def columns_within(self, table: str, after: int, up_to: int) -> list[LoggedColumns]:
        """Return the columns that the database logged for a table in ``(after, up_to]``, in order."""
        condition = self._within(table, after, up_to) & (ds.field("kind") == LoggedKind.COLUMNS.value)
        rows = self._select(["offset", "number", "new"], condition).sort_by(
            [("offset", "ascending"), ("number", "ascending")]
        )
        return [
            LoggedColumns(offset, dict(types))
            for offset, types in zip(rows["offset"].to_pylist(), rows["new"].to_pylist(), strict=True)
        ]

    def mark(self, text: str) -> int | None:
        """Return the offset of the first mark with a text; ``None`` if the log has none."""
        rows = self._select(["offset", "new"], ds.field("kind") == LoggedKind.MARK.value).to_pylist()
        return min((row["offset"] for row in rows if dict(row["new"])["text"] == text), default=None)

    def partitions_of(self, table: str) -> dict[str, str] | None:
        """Return the newest partitions of a table that the log has, by id; ``None`` if it has none."""
        condition = (ds.field("table") == table) & (ds.field("kind") == LoggedKind.PARTITIONS.value)
        rows = self._select(["offset", "new"], condition).to_pylist()
        return dict(max(rows, key=lambda row: row["offset"])["new"]) if rows else None

    def lost_within(self, table: str, after: int, up_to: int) -> list[str]:
        """Return why changes of a table in ``(after, up_to]`` are unknown."""
        offset, kind = ds.field("offset"), ds.field("kind")
        removed = (ds.field("table") == table) & (kind == LoggedKind.PART_REMOVED.value)
        condition = (offset > after) & (offset <= up_to) & (removed | (kind == LoggedKind.GAP.value))
        return [dict(row["new"])["text"] for row in self._select(["new"], condition).to_pylist()]

    def transactions_within(self, after: int, up_to: int) -> set[tuple[int, int]]:
        """Return offset and id of the transactions that changed rows in ``(after, up_to]``."""
        offset = ds.field("offset")
        condition = (offset > after) & (offset <= up_to) & ds.field("kind").isin(_OF_SINGLE_ROWS)
        rows = self._select(["offset", "transaction"], condition)
        return set(zip(rows["offset"].to_pylist(), rows["transaction"].to_pylist(), strict=True))

    def complete_after(self) -> int:
        """Return the offset after which the log has every transaction up to its end."""
        gaps = self._select(["offset"], ds.field("kind") == LoggedKind.GAP.value)
        return max(gaps["offset"].to_pylist(), default=self.landed_through)

    def truncated_within(self, table: str, after: int, up_to: int) -> tuple[int, int] | None:
        """Return the offset and number of the last TRUNCATE of a table in ``(after, up_to]``; ``None`` if none."""
        condition = self._within(table, after, up_to) & (ds.field("kind") == LoggedKind.TRUNCATE.value)
        rows = self._select(["offset", "number"], condition).to_pylist()
        return max(((row["offset"], row["number"]) for row in rows), default=None)

    def earliest_of(self, transactions: Iterable[int], *, up_to: int, and_from: int | None = None) -> int | None:
        """
        Return the first offset at or before an offset of some transactions; ``None`` if they have none there.

        :param and_from: also of this transaction and all later ones; ids of 32 bits, which begin again at their end.
        """
        found = ds.field("transaction")
        wanted = found.isin(list(transactions))
        if and_from is not None:
            is_later = (found >= and_from) & (found < and_from + _HALF_OF_IDS)
            wanted = wanted | is_later | ((found > 0) & (found < and_from - _HALF_OF_IDS))
        condition = wanted & (ds.field("offset") <= up_to)
        return min(self._select(["offset"], condition)["offset"].to_pylist(), default=None)

    @staticmethod
    def _within(table: str, after: int, up_to: int) -> ds.Expression:
        offset = ds.field("offset")
        return (offset > after) & (offset <= up_to) & (ds.field("table") == table)

    def _select(self, columns: list[str], condition: ds.Expression) -> pa.Table:
        with storage_errors(self.location), panics_as_errors():
            return self._existing().to_pyarrow_dataset().to_table(columns=columns, filter=condition)

    def _existing(self) -> DeltaTable:
        try:
            return self._newest()
        except TableNotFoundError as error:
            raise self._gone() from error

    def _newest(self) -> DeltaTable:
        with storage_errors(self.location):
            if self._opened is None:
                self._opened = DeltaTable(self.location, storage_options=self._options)
            else:
                self._opened.update_incremental()
        return self._opened

    def _created(self, origin: str) -> DeltaTable:
        configuration: dict[str, Any] = {
            ORIGIN_PROPERTY: origin,
            "delta.appendOnly": "true",
            "delta.dataSkippingNumIndexedCols": "6",
        }
        try:
            with storage_errors(self.location):
                return DeltaTable.create(
                    self.location,
                    schema=SCHEMA,
                    mode="error",
                    configuration=configuration,
                    storage_options=self._options,
                    raise_if_key_not_exists=False,
                )
        except DeltaError:
            # Another process created it at the same time, or died before it recorded the beginning.
            with storage_errors(self.location):
                return DeltaTable(self.location, storage_options=self._options)

    def _gone(self) -> ChangeFeedGapError:
        return ChangeFeedGapError(
            f"the change log at {self.location} is gone, and the database does not return its changes again; restore "
            "it, or rebuild the job"
        )

    def _overtaken(self) -> ConcurrentUpdateError:
        return ConcurrentUpdateError(f"another process landed changes into {self.location} at the same time; try again")


def _noting_failures(batches: Iterator[pa.RecordBatch], failures: list[BaseException]) -> Iterator[pa.RecordBatch]:
    """Yield batches, and note the error that ends them early."""
    try:
        yield from batches
    except BaseException as error:
        failures.append(error)
        raise


def _gap(offset: int, why: str, at: dt.datetime) -> LoggedChange:
    return LoggedChange(
        offset=offset,
        number=0,
        transaction=0,
        committed_at=at,
        table=OF_ALL_TABLES,
        kind=LoggedKind.GAP,
        new={"text": why},
    )


def _landed_through(offset: int) -> CommitProperties:
    return CommitProperties(max_commit_retries=0, app_transactions=[Transaction(_LANDED, offset)])

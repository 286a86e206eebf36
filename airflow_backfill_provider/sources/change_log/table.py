"""
A change log's Delta table: lands changes once, answers questions about them without a JVM, and cleans them up.

Each landing is one commit, which also records how far the log is landed. It is made against exactly the version that
the landing read. So of two landings at the same time one fails, and starts over from where the other ended. The same
holds for a clean-up.

The log is written by this package alone, and the first column is the offset. So its statistics can be trusted, and a
question about offsets reads only the files that have them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from airflow_backfill_provider.core.crash_points import CrashPoint, reached
from airflow_backfill_provider.core.durations import duration
from airflow_backfill_provider.core.errors import (
    BackfillError,
    ChangeFeedGapError,
    ConcurrentUpdateError,
    DataFileError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.lake.dropping import drop_table
from airflow_backfill_provider.lake.retention import interval
from airflow_backfill_provider.lake.rows import read_rows, text_literal
from airflow_backfill_provider.lake.storage import (
    got_no_answer,
    one_line,
    panics_as_errors,
    storage_errors,
    storage_unavailable,
)
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

KEPT_FOR_PROPERTY = "backfill.changesKeptFor"
"""The table property with how long a change stays in the log once it was landed, as Delta writes an interval."""

_KEPT_FOR = "interval 30 days"

_CLEANED = "airflow-backfill/cleaned"
"""The id of the transaction whose version is when the log was last cleaned up, in seconds since 1970."""

CLEANED_EVERY = dt.timedelta(days=1)
"""How often the log is cleaned up, at most."""

_APPEND_ONLY = "delta.appendOnly"

_HALF_OF_IDS = 1 << 31
"""Of two transaction ids of 32 bits, the later one is at most this far ahead."""

OF_ALL_TABLES = ""
"""The table's id of a row that is of no table, or of all."""


def _of_kinds(*kinds: LoggedKind) -> str:
    return f"kind IN ({', '.join(text_literal(kind.value) for kind in kinds)})"


_OF_SINGLE_ROWS = _of_kinds(LoggedKind.INSERT, LoggedKind.UPDATE, LoggedKind.DELETE)
_OF_ROWS = _of_kinds(*OF_ROWS)
_COMMITTED = f"NOT {_of_kinds(LoggedKind.GAP, LoggedKind.LANDED)}"
"""The rows whose time is that of a commit in the database."""

_LAST_TIME = "when the last transaction that was cleaned up was committed"
"""The text of a mark that stays in its place, so that the time of each offset after it is still known."""

_CHANGES = (
    f"NOT {_of_kinds(LoggedKind.GAP, LoggedKind.LANDED, LoggedKind.PARTITIONS)} "
    f"AND NOT ({_of_kinds(LoggedKind.MARK)} AND transaction = 0)"
)
"""The rows that make a clean-up worth while: not those that it writes itself."""

_OLDEST_FIRST = 'ORDER BY "offset", number'
_NEWEST_FIRST = 'ORDER BY "offset" DESC, number DESC'


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
                    commit_properties=_recorded({_LANDED: after, _CLEANED: _seconds(at)}),
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
                write_deltalake(table, rows, mode="append", commit_properties=_recorded({_LANDED: through}))
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

    # ---------------------------------------------------------------------------------------------- cleaning up

    def changes_kept_for(self) -> dt.timedelta | None:
        """Return how long a change stays once it was landed; ``None`` if the property cannot be read."""
        return interval(self._written_kept_for())

    def unreadable(self) -> str:
        """Return the property that says how long changes stay, if it cannot be read; otherwise an empty text."""
        written = self._written_kept_for()
        return "" if interval(written) is not None else f"{KEPT_FOR_PROPERTY} = {written!r}"

    def _written_kept_for(self) -> str:
        return self._existing().metadata().configuration.get(KEPT_FOR_PROPERTY, _KEPT_FOR)

    def is_clean_up_due(self, now: dt.datetime) -> bool:
        """Return whether the log was not cleaned up for a day."""
        last = self._existing().transaction_version(_CLEANED)
        return last is None or _seconds(now) - last >= CLEANED_EVERY.total_seconds()

    def clean_up(self, now: dt.datetime, *, up_to: int | None = None) -> None:
        """
        Remove changes that have been in the log for longer than they are kept, and put small files together.

        Files that this replaces stay for a week, so that a reader that has begun can end.

        :param up_to: the offset after which nothing is removed; ``None`` for the end of the log.
        :raises ConcurrentUpdateError: if another process wrote to the log meanwhile; what is left is done next time.
        """
        kept_for = self.changes_kept_for()
        try:
            with storage_errors(self.location):
                if kept_for is not None:
                    self._remove_older(now, kept_for, up_to)
                self._note_landed(now)
                table = self._existing()
                table.optimize.compact(commit_properties=_recorded({}))
                table.vacuum(dry_run=False)
        except CommitFailedError as error:
            raise self._overtaken() from error
        finally:
            self._opened = None

    def _remove_older(self, now: dt.datetime, kept_for: dt.timedelta, up_to: int | None) -> None:
        """Replace the changes by a gap and what must stay, in one commit."""
        noted = self._select(["offset", "committed_at"], _of_kinds(LoggedKind.LANDED)).to_pylist()
        old = [row["offset"] for row in noted if now - row["committed_at"] >= kept_for]
        removed = min([max(old, default=0), *([] if up_to is None else [up_to])])
        self._allow_removal()
        table = self._existing()
        older = f'"offset" <= {removed}'
        if not self._select(["offset"], f"{older} AND {_CHANGES}", "LIMIT 1", table=table).num_rows:
            return
        staying = pa.Table.from_batches(arrow_batches(self._staying(table, older, kept_for)))
        reached(CrashPoint.BEFORE_CLEAN_UP_COMMIT)
        write_deltalake(table, staying, mode="overwrite", predicate=older, commit_properties=_recorded({}))
        reached(CrashPoint.AFTER_CLEAN_UP_COMMIT)

    def _staying(self, table: DeltaTable, older: str, kept_for: dt.timedelta) -> list[LoggedChange]:
        """
        Return what replaces old rows: a gap, when the last of them was committed, and each table's partitions.

        :param older: the condition for the old rows; at least one of them is a change.
        """
        is_logged = f"NOT {_of_kinds(LoggedKind.LANDED)}"
        (last,), (committed,) = (
            self._select(
                ["offset", "committed_at"], f"{older} AND {condition}", f"{_NEWEST_FIRST} LIMIT 1", table=table
            ).to_pylist()
            for condition in (is_logged, _COMMITTED)
        )
        why = (
            f"changes that were cleaned up {duration(kept_for.total_seconds())} after they were landed (table property "
            f"{KEPT_FOR_PROPERTY}; set it to longer than a job may ever pause)"
        )
        partitions = self._select(
            SCHEMA.names, f"{older} AND {_of_kinds(LoggedKind.PARTITIONS)}", _OLDEST_FIRST, table=table
        ).to_pylist()
        return [
            _gap(last["offset"], why, committed["committed_at"]),
            _of_all_tables(LoggedKind.MARK, committed["offset"], committed["committed_at"], _LAST_TIME),
            *map(_logged, {row["table"]: row for row in partitions}.values()),
        ]

    def _note_landed(self, now: dt.datetime) -> None:
        """Record how far the log is landed now, so that it is known later how long its changes have been in it."""
        table = self._existing()
        landed = self.landed_through
        noted = self._select(["offset"], f'"offset" >= {landed} AND {_of_kinds(LoggedKind.LANDED)}', table=table)
        rows = [] if noted.num_rows else [_of_all_tables(LoggedKind.LANDED, landed, now)]
        write_deltalake(
            table,
            pa.RecordBatchReader.from_batches(SCHEMA, arrow_batches(rows)),
            mode="append",
            commit_properties=_recorded({_CLEANED: _seconds(now)}),
        )

    def _allow_removal(self) -> None:
        """Let rows be removed from a log of an older version of this package."""
        table = self._existing()
        if table.metadata().configuration.get(_APPEND_ONLY) == "true":
            table.alter.set_table_properties({_APPEND_ONLY: "false"}, commit_properties=_recorded({}))

    # ------------------------------------------------------------------------------------------------ questions

    def has_changes(self, table: str, after: int, up_to: int) -> bool:
        """Return whether rows of a table changed in ``(after, up_to]``."""
        return bool(self._select(["offset"], f"{_within(table, after, up_to)} AND {_OF_ROWS}", "LIMIT 1").num_rows)

    def changed_since(self, table: str, after: int) -> dt.datetime | None:
        """Return when the oldest change of a table's rows after an offset was committed; ``None`` if there is none."""
        condition = f'"offset" > {after} AND {_of_table(table)} AND {_OF_ROWS}'
        rows = self._select(["committed_at"], condition, f"{_OLDEST_FIRST} LIMIT 1")
        return min(rows["committed_at"].to_pylist(), default=None)

    def first_needed(self, table: str, after: int) -> tuple[int, LoggedKind] | None:
        """Return offset and kind of the first row after an offset that a table's reader needs, or lacks."""
        condition = f'"offset" > {after} AND ({_of_kinds(LoggedKind.GAP)} OR ({_of_table(table)} AND {_OF_ROWS}))'
        rows = self._select(["offset", "kind"], condition, f"{_OLDEST_FIRST} LIMIT 1").to_pylist()
        return (rows[0]["offset"], LoggedKind(rows[0]["kind"])) if rows else None

    def kept_since(self, offset: int) -> dt.datetime | None:
        """Return from when on it counts how long an offset's changes are kept; ``None`` if from a later moment on."""
        condition = f'"offset" >= {offset} AND {_of_kinds(LoggedKind.LANDED)}'
        return min(self._select(["committed_at"], condition)["committed_at"].to_pylist(), default=None)

    def committed_at(self, offset: int) -> dt.datetime | None:
        """Return when the newest transaction at or before an offset was committed; ``None`` if there is none."""
        newest = self._newest_row(["committed_at"], f'"offset" <= {offset} AND {_COMMITTED}', up_to=offset)
        return None if newest is None else newest["committed_at"]

    def offset_at(self, instant: dt.datetime) -> int | None:
        """Return the newest offset that was committed at or before an instant; ``None`` if the log begins later."""
        newest = self._newest_row(["offset"], f"committed_at <= {_instant(instant)} AND {_COMMITTED}")
        return None if newest is None else newest["offset"]

    def columns_within(self, table: str, after: int, up_to: int) -> list[LoggedColumns]:
        """Return the columns that the database logged for a table in ``(after, up_to]``, in order."""
        condition = f"{_within(table, after, up_to)} AND {_of_kinds(LoggedKind.COLUMNS)}"
        rows = self._select(["offset", "new"], condition, _OLDEST_FIRST).to_pylist()
        return [LoggedColumns(row["offset"], dict(row["new"])) for row in rows]

    def mark(self, text: str) -> int | None:
        """Return the offset of the newest mark with a text; ``None`` if the log has none."""
        is_it = f"new['text'] = {text_literal(text)}"
        newest = self._newest_row(["offset"], f"{_of_kinds(LoggedKind.MARK)} AND {is_it}")
        return None if newest is None else newest["offset"]

    def partitions_of(self, table: str) -> dict[str, str] | None:
        """Return the newest partitions of a table that the log has, by id; ``None`` if it has none."""
        condition = f"{_of_table(table)} AND {_of_kinds(LoggedKind.PARTITIONS)}"
        rows = self._select(["new"], condition, f"{_NEWEST_FIRST} LIMIT 1").to_pylist()
        return dict(rows[0]["new"]) if rows else None

    def lost_within(self, table: str, after: int, up_to: int) -> list[str]:
        """Return why changes of a table in ``(after, up_to]`` are unknown."""
        removed = f"({_of_table(table)} AND {_of_kinds(LoggedKind.PART_REMOVED)})"
        condition = f"{_between(after, up_to)} AND ({removed} OR {_of_kinds(LoggedKind.GAP)})"
        return [dict(row["new"])["text"] for row in self._select(["new"], condition, _OLDEST_FIRST).to_pylist()]

    def version_without_gap(self, table: str, after: int, up_to: int) -> int:
        """
        Return a version of the log that has all changes of a table in ``(after, up_to]``, for a reader of it.

        :raises ChangeFeedGapError: if there is none any more.
        """
        self.require_changes(table, after, up_to)
        # The one that was asked just now.
        return (self._opened or self._existing()).version()

    def require_changes(self, table: str, after: int, up_to: int) -> None:
        """
        Refuse a window ``(after, up_to]`` with changes of a table that are unknown.

        :raises ChangeFeedGapError: with why, and what to do.
        """
        if lost := self.lost_within(table, after, up_to):
            raise ChangeFeedGapError(
                f"the change log at {self.location} does not have the rows of {'; '.join(lost)}; rebuild the job"
            )

    def transactions_within(self, after: int, up_to: int) -> set[tuple[int, int]]:
        """Return offset and id of the transactions that changed rows in ``(after, up_to]``."""
        rows = self._select(["offset", "transaction"], f"{_between(after, up_to)} AND {_OF_SINGLE_ROWS}")
        return set(zip(rows["offset"].to_pylist(), rows["transaction"].to_pylist(), strict=True))

    def complete_after(self) -> int:
        """Return the offset after which the log has every transaction up to its end."""
        gaps = self._select(["offset"], _of_kinds(LoggedKind.GAP))
        return max(gaps["offset"].to_pylist(), default=self.landed_through)

    def truncated_within(self, table: str, after: int, up_to: int) -> tuple[int, int] | None:
        """Return the offset and number of the last TRUNCATE of a table in ``(after, up_to]``; ``None`` if none."""
        condition = f"{_within(table, after, up_to)} AND {_of_kinds(LoggedKind.TRUNCATE)}"
        rows = self._select(["offset", "number"], condition).to_pylist()
        return max(((row["offset"], row["number"]) for row in rows), default=None)

    def earliest_of(self, transactions: Iterable[int], *, up_to: int, and_from: int | None = None) -> int | None:
        """
        Return the first offset at or before an offset of some transactions; ``None`` if they have none there.

        :param and_from: also of this transaction and all later ones; ids of 32 bits, which begin again at their end.
        """
        wanted = [f"transaction = {transaction}" for transaction in transactions]
        if and_from is not None:
            wanted.append(f"(transaction >= {and_from} AND transaction < {and_from + _HALF_OF_IDS})")
            wanted.append(f"(transaction > 0 AND transaction < {and_from - _HALF_OF_IDS})")
        condition = f'"offset" <= {up_to} AND ({" OR ".join(wanted) or "FALSE"})'
        return min(self._select(["offset"], condition)["offset"].to_pylist(), default=None)

    def _newest_row(self, columns: Sequence[str], where: str, *, up_to: int | None = None) -> dict[str, Any] | None:
        """
        Return the matching row with the greatest offset; reads no more of the log's end than it takes.

        :param up_to: an offset after which no row matches.
        """
        table = self._existing()
        for begin in _beginnings(table, up_to):
            condition = f'"offset" >= {begin} AND {where}'
            found = self._select(columns, condition, f"{_NEWEST_FIRST} LIMIT 1", table=table)
            if found.num_rows:
                return dict(found.to_pylist()[0])
        return None

    def _select(
        self, columns: Sequence[str], where: str, ending: str = "", *, table: DeltaTable | None = None
    ) -> pa.Table:
        opened = table or self._existing()
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
            KEPT_FOR_PROPERTY: _KEPT_FOR,
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
    return _of_all_tables(LoggedKind.GAP, offset, at, why)


def _of_all_tables(kind: LoggedKind, offset: int, at: dt.datetime, text: str | None = None) -> LoggedChange:
    """Return a row that this package writes itself, apart from transactions."""
    return LoggedChange(
        offset=offset,
        number=0,
        transaction=0,
        committed_at=at,
        table=OF_ALL_TABLES,
        kind=kind,
        new=None if text is None else {"text": text},
    )


def _logged(row: Mapping[str, Any]) -> LoggedChange:
    """Return a stored row."""
    texts = {name: None if row[name] is None else dict(row[name]) for name in ("old", "new")}
    return LoggedChange(**{**row, "kind": LoggedKind(row["kind"]), **texts})


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


def _within(table: str, after: int, up_to: int) -> str:
    return f"{_between(after, up_to)} AND {_of_table(table)}"


def _between(after: int, up_to: int) -> str:
    return f'"offset" > {after} AND "offset" <= {up_to}'


def _of_table(table: str) -> str:
    return f'"table" = {text_literal(table)}'


def _instant(instant: dt.datetime) -> str:
    text = instant.astimezone(dt.UTC).isoformat(timespec="microseconds")
    return f"""arrow_cast('{text}', 'Timestamp(Microsecond, Some("UTC"))')"""


def _recorded(versions: Mapping[str, int]) -> CommitProperties:
    """Return the properties of a commit that follows exactly the version that was read, and records some versions."""
    return CommitProperties(
        max_commit_retries=0, app_transactions=[Transaction(name, version) for name, version in versions.items()]
    )


def _seconds(instant: dt.datetime) -> int:
    return int(instant.timestamp())

"""
What a change log is asked: which changes it has and lacks, in which order, and when they were committed.

Nothing here needs a JVM. A question about offsets reads only the files that have them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_backfill_provider.core.errors import ChangeFeedGapError
from airflow_backfill_provider.lake.files.rows import text_literal
from airflow_backfill_provider.sources.shared.change_log import commits
from airflow_backfill_provider.sources.shared.change_log.changes import LoggedKind, Texts
from airflow_backfill_provider.sources.shared.change_log.conditions import (
    COMMITTED,
    NEWEST_FIRST,
    OF_ANY_ROWS,
    OF_SINGLE_ROWS,
    OLDEST_FIRST,
    between,
    of_kinds,
    of_table,
    until,
    within,
)
from airflow_backfill_provider.sources.shared.change_log.opened import OpenedLog


@dataclass(frozen=True, slots=True)
class LoggedColumns:
    """
    A table's columns as of an offset.

    :param types: column → type, as Delta writes it, or a name in angle brackets if it has no counterpart.
    :param numbers: column → its number in the table, or an empty text if that is not known; empty if none is known.
    """

    offset: int
    types: Mapping[str, str]
    numbers: Texts


@dataclass(frozen=True, slots=True)
class LoggedPartitions:
    """
    A table's partitions.

    :param names: their names, by id.
    :param since: what identifies the place of each in its table, by id.
    """

    names: Texts
    since: Texts


class ChangeLogQueries:
    """
    What a change log is asked.

    :param log: its opened table.
    """

    def __init__(self, log: OpenedLog) -> None:
        self._log = log

    @property
    def landed_through(self) -> int:
        """
        The offset through which the log is landed.

        :raises ChangeFeedGapError: if the log is gone.
        """
        landed = commits.landed_through(self._log.existing())
        if landed is None:
            raise self._log.gone()
        return landed

    def written_at(self) -> dt.datetime | None:
        """Return when the log was written to last, after the database had answered; ``None`` if there is none."""
        return self._log.written_at()

    def has_changes(self, table: str, after: int, up_to: int) -> bool:
        """Return whether rows of a table changed in ``(after, up_to]``."""
        return bool(self._log.rows(["offset"], f"{within(table, after, up_to)} AND {OF_ANY_ROWS}", "LIMIT 1").num_rows)

    def changed_since(self, table: str, after: int) -> dt.datetime | None:
        """Return when the oldest change of a table's rows after an offset was committed; ``None`` if there is none."""
        condition = f'"offset" > {after} AND {of_table(table)} AND {OF_ANY_ROWS}'
        rows = self._log.rows(["committed_at"], condition, f"{OLDEST_FIRST} LIMIT 1")
        return min(rows["committed_at"].to_pylist(), default=None)

    def first_needed(self, table: str, after: int) -> tuple[int, LoggedKind] | None:
        """Return offset and kind of the first row after an offset that a table's reader needs, or lacks."""
        of_rows = f"({of_table(table)} AND ({OF_ANY_ROWS} OR {of_kinds(LoggedKind.PART_REMOVED)}))"
        condition = f'"offset" > {after} AND ({of_kinds(LoggedKind.GAP)} OR {of_rows})'
        rows = self._log.rows(["offset", "kind"], condition, f"{OLDEST_FIRST} LIMIT 1").to_pylist()
        return (rows[0]["offset"], LoggedKind(rows[0]["kind"])) if rows else None

    def kept_since(self, offset: int) -> dt.datetime | None:
        """Return from when on it counts how long an offset's changes are kept; ``None`` if from a later moment on."""
        condition = f'"offset" >= {offset} AND {of_kinds(LoggedKind.LANDED)}'
        return min(self._log.rows(["committed_at"], condition)["committed_at"].to_pylist(), default=None)

    def committed_at(self, offset: int) -> dt.datetime | None:
        """Return when the newest transaction at or before an offset was committed; ``None`` if there is none."""
        newest = self._log.newest_row(["committed_at"], f'"offset" <= {offset} AND {COMMITTED}', up_to=offset)
        return None if newest is None else newest["committed_at"]

    def offset_at(self, instant: dt.datetime) -> int | None:
        """Return the newest offset that was committed at or before an instant; ``None`` if the log begins later."""
        newest = self._log.newest_row(["offset"], f"{until(instant)} AND {COMMITTED}")
        return None if newest is None else newest["offset"]

    def columns_within(self, table: str, after: int, up_to: int) -> list[LoggedColumns]:
        """Return the columns that the database logged for a table in ``(after, up_to]``, in order."""
        condition = f"{within(table, after, up_to)} AND {of_kinds(LoggedKind.COLUMNS)}"
        rows = self._log.rows(["offset", "new", "old"], condition, OLDEST_FIRST).to_pylist()
        return [LoggedColumns(row["offset"], dict(row["new"]), dict(row["old"] or ())) for row in rows]

    def rewritten_within(self, table: str, after: int, up_to: int) -> dict[str, str]:
        """Return the columns whose values were changed without changes of rows in ``(after, up_to]``, and how."""
        condition = f"{within(table, after, up_to)} AND {of_kinds(LoggedKind.REWRITTEN)}"
        rows = self._log.rows(["new"], condition, OLDEST_FIRST).to_pylist()
        return {column: text for row in rows for column, text in dict(row["new"]).items()}

    def mark(self, text: str) -> int | None:
        """Return the offset of the newest mark with a text; ``None`` if the log has none."""
        is_it = f"new['text'] = {text_literal(text)}"
        newest = self._log.newest_row(["offset"], f"{of_kinds(LoggedKind.MARK)} AND {is_it}")
        return None if newest is None else newest["offset"]

    def partitions_of(self, table: str) -> LoggedPartitions | None:
        """Return the newest partitions of a table that the log has; ``None`` if it says nothing about them."""
        condition = f"{of_table(table)} AND {of_kinds(LoggedKind.PARTITIONS)}"
        rows = self._log.rows(["new", "old"], condition, f"{NEWEST_FIRST} LIMIT 1").to_pylist()
        return LoggedPartitions(dict(rows[0]["new"]), dict(rows[0]["old"] or ())) if rows else None

    def published_as(self, name: str) -> int | None:
        """Return what identified something that the database publishes at the last landing; ``None`` if unknown."""
        return commits.published_as(self._log.existing(), name)

    def lost_within(self, table: str, after: int, up_to: int) -> list[str]:
        """Return why changes of a table in ``(after, up_to]`` are unknown."""
        removed = f"({of_table(table)} AND {of_kinds(LoggedKind.PART_REMOVED)})"
        condition = f"{between(after, up_to)} AND ({removed} OR {of_kinds(LoggedKind.GAP)})"
        return [dict(row["new"])["text"] for row in self._log.rows(["new"], condition, OLDEST_FIRST).to_pylist()]

    def version_without_gap(self, table: str, after: int, up_to: int) -> int:
        """
        Return a version of the log that has all changes of a table in ``(after, up_to]``, for a reader of it.

        :raises ChangeFeedGapError: if there is none any more.
        """
        self.require_changes(table, after, up_to)
        # The one that was asked just now.
        return self._log.as_asked().version()

    def require_changes(self, table: str, after: int, up_to: int) -> None:
        """
        Refuse a window ``(after, up_to]`` with changes of a table that are unknown.

        :raises ChangeFeedGapError: with why, and what to do.
        """
        if lost := self.lost_within(table, after, up_to):
            raise ChangeFeedGapError(
                f"the change log at {self._log.location} does not have the rows of {'; '.join(lost)}; rebuild the job"
            )

    def transactions_within(self, after: int, up_to: int) -> set[tuple[int, int]]:
        """Return offset and id of the transactions that changed rows in ``(after, up_to]``."""
        rows = self._log.rows(["offset", "transaction"], f"{between(after, up_to)} AND {OF_SINGLE_ROWS}")
        return set(zip(rows["offset"].to_pylist(), rows["transaction"].to_pylist(), strict=True))

    def complete_after(self) -> int:
        """Return the offset after which the log has every transaction up to its end."""
        gaps = self._log.rows(["offset"], of_kinds(LoggedKind.GAP))
        return max(gaps["offset"].to_pylist(), default=self.landed_through)

    def truncated_within(self, table: str, after: int, up_to: int) -> tuple[int, int] | None:
        """Return the offset and number of the last TRUNCATE of a table in ``(after, up_to]``; ``None`` if none."""
        condition = f"{within(table, after, up_to)} AND {of_kinds(LoggedKind.TRUNCATE)}"
        rows = self._log.rows(["offset", "number"], condition).to_pylist()
        return max(((row["offset"], row["number"]) for row in rows), default=None)

    def earliest_of(
        self, transactions: Iterable[int], *, up_to: int, and_within: Iterable[tuple[int, int]] = ()
    ) -> int | None:
        """
        Return the first offset at or before an offset of some transactions; ``None`` if they have none there.

        :param and_within: also of those whose ids lie from the first of two numbers up to before the second.
        """
        wanted = [f"transaction = {transaction}" for transaction in transactions]
        wanted += [f"(transaction >= {first} AND transaction < {end})" for first, end in and_within]
        condition = f'"offset" <= {up_to} AND ({" OR ".join(wanted) or "FALSE"})'
        return min(self._log.rows(["offset"], condition)["offset"].to_pylist(), default=None)

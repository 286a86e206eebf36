"""Reads a table of Debezium's events on Spark: the rows and the changes that they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.debezium.description import DebeziumDescription
from airflow_backfill_provider.sources.debezium.encodings import Encoding
from airflow_backfill_provider.sources.debezium.events import INSERT, READ, TRUNCATE, Events
from airflow_backfill_provider.sources.debezium.snapshot_table import SnapshotTable
from airflow_backfill_provider.sources.debezium.source import DebeziumSource
from airflow_backfill_provider.sources.event_table.events import DELETE
from airflow_backfill_provider.sources.event_table.reader import EventTableReader
from airflow_backfill_provider.sources.reader import CHANGE_OFFSET
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.sources.shared.postgresql.jdbc import JdbcTable
from airflow_backfill_provider.sources.shared.postgresql.texts import typed
from airflow_backfill_provider.sources.shared.present_as_of import present_as_of
from airflow_backfill_provider.sources.shared.refusals import unsupported_value

_NO_POSITION = -1
"""A position before all others."""


class _Truncation(NamedTuple):
    version: int
    position: int


class DebeziumReader(EventTableReader):
    """
    Reads one table of events.

    :param source: the table of events.
    """

    source: DebeziumSource

    def __init__(self, spark: SparkSession, source: DebeziumSource) -> None:
        super().__init__(spark, source)
        self._unsettled: DataFrame | None = None
        self._known_truncations: dict[tuple[Offset, Offset], tuple[int, list[_Truncation]]] = {}

    # ---------------------------------------------------------------------------------------------------- rows

    def rows(self, offset: Offset) -> DataFrame:
        """
        Return the row of the last event of each key, unless that is a delete.

        With a database, return its present rows, without those that have changed since.
        """
        source = self.source
        if source.present is not None:
            rows, self._unsettled = present_as_of(source, source.present, self, offset, source.key)
            return rows
        events = self.history(offset)
        self._require_whole_history(events)
        return self.rows_after(self._of_rows(events, self._truncated_at(events)))

    def unsettled(self, offset: Offset) -> DataFrame | None:
        """Return the keys that changed after the offset, if rows were read from the database."""
        del offset
        return self._unsettled

    def _require_whole_history(self, events: DataFrame) -> None:
        """
        Refuse events that begin in the middle of the history.

        Without a snapshot, each row must begin with an insert. Rows without any event cannot be noticed.
        """
        kind = F.col(self.events.kind)
        if events.filter(kind == READ).limit(1).count():
            return
        first = F.lag(F.lit(1)).over(self.events.in_order).isNull()
        begun = self._of_rows(events, _NO_POSITION).withColumn(self.events.own.named("is_first"), first)
        if begun.filter(F.col(self.events.own.named("is_first")) & (kind != INSERT)).limit(1).count():
            raise UpstreamError(
                f"{self.source.location}: the events begin in the middle of the table's history, without a snapshot "
                "(op = r), so rows are missing that have not changed since; name the database in "
                "upstream.debezium.snapshot, or let Debezium make a snapshot"
            )

    # ------------------------------------------------------------------------------------------------- changes

    def changes(self, after: Offset, up_to: Offset) -> DataFrame:
        """Return the changes that the events in ``(after, up_to]`` make."""
        has_database = self.source.present is not None
        history, window = self.history(after), self.window(after, up_to)
        dead_at, truncations = self._truncated(after, up_to)
        before, within = self._of_rows(history, dead_at), self._of_rows(window, dead_at)
        if truncations and has_database:
            # The rows without events are gone, too, so only what comes after counts.
            last = max(truncations, key=lambda truncation: truncation.position)
            later = self._of_rows(history, last.position).withColumn(CHANGE_OFFSET, F.lit(last.version).cast("long"))
            within = self._of_rows(window, last.position).unionByName(later)
            before = before.limit(0)
        keys = within.select(*self.keys).distinct()
        if truncations and not has_database:
            keys = before.select(*self.keys).unionByName(keys).distinct()
            within = within.unionByName(self._removed(keys, truncations, within))
        return self.net(before, within, keys, after)

    def is_cleared(self, after: Offset, up_to: Offset) -> bool:
        """
        Return whether the table was truncated in ``(after, up_to]``, if rows may have no events.

        Otherwise :meth:`changes` has a delete of each row.
        """
        return self.source.present is not None and bool(self._truncated(after, up_to)[1])

    def _truncated(self, after: Offset, up_to: Offset) -> tuple[int, list[_Truncation]]:
        """Return the position of the last TRUNCATE before a window, and each one in it."""
        # An epoch asks for its changes, and whether they begin with a TRUNCATE; both scan all events.
        if (after, up_to) not in self._known_truncations:
            dead_at = self._truncated_at(self.history(after))
            found = self._truncations(self.window(after, up_to), dead_at)
            self._known_truncations[after, up_to] = dead_at, found
        return self._known_truncations[after, up_to]

    def _of_rows(self, events: DataFrame, dead_at: int) -> DataFrame:
        """Return the events of rows after a position."""
        position = F.col(f"{self.events.order}.position")
        return events.filter((F.col(self.events.kind) != TRUNCATE) & (position > dead_at))

    def _truncated_at(self, events: DataFrame) -> int:
        """Return the position of the last TRUNCATE."""
        found = events.filter(F.col(self.events.kind) == TRUNCATE).agg(F.max(f"{self.events.order}.position")).first()
        return _NO_POSITION if found is None or found[0] is None else int(found[0])

    def _truncations(self, window: DataFrame, dead_at: int) -> list[_Truncation]:
        """Return each TRUNCATE after a position, once."""
        position = F.col(f"{self.events.order}.position")
        found = (
            window.filter((F.col(self.events.kind) == TRUNCATE) & (position > dead_at))
            .groupBy(position.alias("position"))
            .agg(F.min(CHANGE_OFFSET).alias("version"))
            .collect()
        )
        return [_Truncation(row["version"], row["position"]) for row in found]

    def _removed(self, keys: DataFrame, truncations: Sequence[_Truncation], like: DataFrame) -> DataFrame:
        """Return a delete of each key at each TRUNCATE."""
        names, at = self.events, self.events.own.named("truncation")
        each = F.array(
            *(
                F.struct(F.lit(found.version).alias("version"), F.lit(found.position).alias("position"))
                for found in truncations
            )
        )
        removed = keys.withColumn(at, F.explode(each))
        values = {
            names.kind: F.lit(DELETE),
            names.order: F.struct(F.col(f"{at}.position").alias("position"), F.lit(2).alias("step")),
            CHANGE_OFFSET: F.col(f"{at}.version"),
            **{name: column(name) for name in names.key},
        }
        return removed.select(
            *(
                values.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
                for field in like.schema.fields
            )
        )

    # -------------------------------------------------------------------------------------------- present rows

    def present_rows(self, ranges: Sequence[KeyRange]) -> DataFrame:
        """
        Return the rows of the database in some ranges, each through a connection of its own.

        :raises InvalidJobError: if the events and the database do not have a used column alike any more.
        """
        snapshot, types = self._snapshot, self._description.types
        encodings = snapshot.encodings(types)
        if self.source.created is not None:
            used = {column.name for column in self.source.created.columns}
            described = replace(self._description, snapshot=snapshot)
            described.require_columns(used)
            described.require_same_columns(self.source.created)
            encodings = {name: found for name, found in encodings.items() if name in used}
        order: KeyOrder = self._description.key_order(self.source.upstream.key)
        table = JdbcTable(self.spark, snapshot.database, snapshot.described, tuple(encodings), order)
        return table.rows(ranges).select(
            *(_encoded(column(name), encoding, types[name], name).alias(name) for name, encoding in encodings.items())
        )

    @property
    def _snapshot(self) -> SnapshotTable:
        """The table as it is now, not as it was when the source was opened."""
        definition = self.source.upstream.snapshot
        if definition is None:
            raise NotImplementedError(f"{self.source.location} has rows only in its events")
        return SnapshotTable(definition)

    # ------------------------------------------------------------------------------------------------- details

    @cached_property
    def _description(self) -> DebeziumDescription:
        return self.source.at()

    @cached_property
    def events(self) -> Events:
        """Debezium's events of the table."""
        return Events(self._description.layout, self.source.key)


def _encoded(text: Column, encoding: Encoding, event_type: str, name: str) -> Column:
    """Return a value of the database, as events encode it."""
    match encoding:
        case Encoding.DAYS:
            return F.unix_date(typed(text, "date", name))
        case Encoding.MICROSECONDS:
            return F.unix_micros(typed(F.concat(text, F.lit("+00")), "timestamp", name))
        case Encoding.MILLISECONDS:
            return F.unix_millis(typed(F.concat(text, F.lit("+00")), "timestamp", name))
        case Encoding.ISO_8601:
            is_usual = text.rlike(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\+00$")
            written = F.regexp_replace(F.regexp_replace(text, r"\+00$", "Z"), " ", "T")
            return F.when(text.isNotNull() & ~is_usual, unsupported_value(name)).otherwise(written)
    return typed(text, event_type, name)

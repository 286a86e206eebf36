"""Reads a table of Debezium's events on Spark: the rows and the changes that they are about."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.core.keys import KeyOrder, KeyRange
from airflow_backfill_provider.core.offset import Offset
from airflow_backfill_provider.sources.by_key import column, with_keys
from airflow_backfill_provider.sources.change_log.texts import typed
from airflow_backfill_provider.sources.debezium.changes import WindowOfEvents
from airflow_backfill_provider.sources.debezium.description import DebeziumDescription
from airflow_backfill_provider.sources.debezium.encodings import Encoding
from airflow_backfill_provider.sources.debezium.events import DELETE, INSERT, READ, TRUNCATE, Events
from airflow_backfill_provider.sources.debezium.snapshot_table import SnapshotTable
from airflow_backfill_provider.sources.debezium.source import DebeziumSource
from airflow_backfill_provider.sources.delta.reader import DeltaReader
from airflow_backfill_provider.sources.delta.versions import version_of
from airflow_backfill_provider.sources.postgres.jdbc import JdbcTable
from airflow_backfill_provider.sources.present_as_of import present_as_of
from airflow_backfill_provider.sources.reader import CHANGE_OFFSET, CHANGE_TYPE, SourceReader
from airflow_backfill_provider.sources.refusals import unsupported_value, unusable_row

_NO_POSITION = -1
"""A position before all others."""


class _Truncation(NamedTuple):
    version: int
    position: int


class DebeziumReader(SourceReader):
    """
    Reads one table of events.

    :param source: the table of events.
    """

    keys_are_unique: ClassVar[bool] = True

    def __init__(self, spark: SparkSession, source: DebeziumSource) -> None:
        self._spark = spark
        self._source = source
        self._stored = DeltaReader(spark, source.location)
        self._unsettled: DataFrame | None = None
        self._known_truncations: dict[tuple[Offset, Offset], tuple[int, list[_Truncation]]] = {}

    # ---------------------------------------------------------------------------------------------------- rows

    def rows(self, offset: Offset) -> DataFrame:
        """
        Return the row of the last event of each key, unless that is a delete.

        With a database, return its present rows, without those that have changed since.
        """
        source = self._source
        if source.present is not None:
            rows, self._unsettled = present_as_of(source, source.present, self, offset, source.key)
            return rows
        events = self._history(offset)
        self._require_whole_history(events)
        last = self._events.last(self._of_rows(events, self._truncated_at(events)))
        return last.filter(F.col(self._events.kind) != DELETE).select(*self._columns)

    def unsettled(self, offset: Offset) -> DataFrame | None:
        """Return the keys that changed after the offset, if rows were read from the database."""
        del offset
        return self._unsettled

    def empty(self) -> DataFrame:
        """Return all columns, without rows."""
        return self._events.of(self._stored.empty()).select(*self._columns)

    def _require_whole_history(self, events: DataFrame) -> None:
        """
        Refuse events that begin in the middle of the history.

        Without a snapshot, each row must begin with an insert. Rows without any event cannot be noticed.
        """
        kind = F.col(self._events.kind)
        if events.filter(kind == READ).limit(1).count():
            return
        first = F.lag(F.lit(1)).over(self._events.in_order).isNull()
        begun = self._of_rows(events, _NO_POSITION).withColumn(self._events.own.named("is_first"), first)
        if begun.filter(F.col(self._events.own.named("is_first")) & (kind != INSERT)).limit(1).count():
            raise UpstreamError(
                f"{self._source.location}: the events begin in the middle of the table's history, without a snapshot "
                "(op = r), so rows are missing that have not changed since; name the database in "
                "upstream.debezium.snapshot, or let Debezium make a snapshot"
            )

    # ------------------------------------------------------------------------------------------------- changes

    def changes(self, after: Offset, up_to: Offset) -> DataFrame:
        """Return the changes that the events in ``(after, up_to]`` make."""
        names, has_database = self._events, self._source.present is not None
        history, window = self._history(after), self._window(after, up_to)
        dead_at, truncations = self._truncated(after, up_to)
        before, within = self._of_rows(history, dead_at), self._of_rows(window, dead_at)
        if truncations and has_database:
            # The rows without events are gone, too, so only what comes after counts.
            last = max(truncations, key=lambda truncation: truncation.position)
            later = self._of_rows(history, last.position).withColumn(CHANGE_OFFSET, F.lit(last.version).cast("long"))
            within = self._of_rows(window, last.position).unionByName(later)
            before = before.limit(0)
        keys = within.select(*map(column, names.key)).distinct()
        if truncations and not has_database:
            keys = before.select(*map(column, names.key)).unionByName(keys).distinct()
            within = within.unionByName(self._removed(keys, truncations, within))
        needed = with_keys(before, keys, names.key)
        nets = WindowOfEvents(names, self._kept, has_rows_without_events=has_database)
        earlier = names.last(needed).withColumn(CHANGE_OFFSET, F.lit(version_of(after)).cast("long"))
        return nets.changes(within, earlier)

    def is_cleared(self, after: Offset, up_to: Offset) -> bool:
        """
        Return whether the table was truncated in ``(after, up_to]``, if rows may have no events.

        Otherwise :meth:`changes` has a delete of each row.
        """
        return self._source.present is not None and bool(self._truncated(after, up_to)[1])

    def _truncated(self, after: Offset, up_to: Offset) -> tuple[int, list[_Truncation]]:
        """Return the position of the last TRUNCATE before a window, and each one in it."""
        # An epoch asks for its changes, and whether they begin with a TRUNCATE; both scan all events.
        if (after, up_to) not in self._known_truncations:
            dead_at = self._truncated_at(self._history(after))
            found = self._truncations(self._window(after, up_to), dead_at)
            self._known_truncations[after, up_to] = dead_at, found
        return self._known_truncations[after, up_to]

    def _history(self, up_to: Offset) -> DataFrame:
        """Return the events as of a version."""
        return self._events.of(self._stored.rows(up_to) if version_of(up_to) >= 0 else self._stored.empty())

    def _window(self, after: Offset, up_to: Offset) -> DataFrame:
        """Return the events that some versions appended, each with its version."""
        return self._events.of(self._appended(after, up_to), F.col(CHANGE_OFFSET))

    def _appended(self, after: Offset, up_to: Offset) -> DataFrame:
        """Return the rows that some versions appended to the table of events; refuse other changes of it."""
        if up_to <= after:
            # Delta refuses an empty window.
            nothing = {CHANGE_TYPE: F.lit(None).cast("string"), CHANGE_OFFSET: F.lit(None).cast("long")}
            return self._stored.empty().withColumns(nothing)
        kind = F.col(CHANGE_TYPE)
        problem = unusable_row("the table of events is not append-only: events were changed, or removed").cast(
            "boolean"
        )
        is_event = F.when(kind == "insert", F.lit(True))
        if self._source.present is not None:
            # The rows are in the database, so old events may be cleaned up.
            is_event = is_event.when(kind == "delete", F.lit(False))
        return self._stored.changes(after, up_to).filter(is_event.otherwise(problem))

    def _of_rows(self, events: DataFrame, dead_at: int) -> DataFrame:
        """Return the events of rows after a position."""
        position = F.col(f"{self._events.order}.position")
        return events.filter((F.col(self._events.kind) != TRUNCATE) & (position > dead_at))

    def _truncated_at(self, events: DataFrame) -> int:
        """Return the position of the last TRUNCATE."""
        found = events.filter(F.col(self._events.kind) == TRUNCATE).agg(F.max(f"{self._events.order}.position")).first()
        return _NO_POSITION if found is None or found[0] is None else int(found[0])

    def _truncations(self, window: DataFrame, dead_at: int) -> list[_Truncation]:
        """Return each TRUNCATE after a position, once."""
        position = F.col(f"{self._events.order}.position")
        found = (
            window.filter((F.col(self._events.kind) == TRUNCATE) & (position > dead_at))
            .groupBy(position.alias("position"))
            .agg(F.min(CHANGE_OFFSET).alias("version"))
            .collect()
        )
        return [_Truncation(row["version"], row["position"]) for row in found]

    def _removed(self, keys: DataFrame, truncations: Sequence[_Truncation], like: DataFrame) -> DataFrame:
        """Return a delete of each key at each TRUNCATE."""
        names, at = self._events, self._events.own.named("truncation")
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

    @property
    def _kept(self) -> list[str]:
        """The columns of old rows that changes have."""
        return list(dict.fromkeys([*self._source.key, *self._source.upstream.distribution_key]))

    # -------------------------------------------------------------------------------------------- present rows

    def present_rows(self, ranges: Sequence[KeyRange]) -> DataFrame:
        """Return the rows of the database in some ranges, each through a connection of its own."""
        snapshot, types = self._snapshot, self._description.types
        encodings = snapshot.encodings(types)
        order: KeyOrder = self._description.key_order(self._source.upstream.key)
        table = JdbcTable(self._spark, snapshot.database, snapshot.described, tuple(encodings), order)
        return table.rows(ranges).select(
            *(_encoded(column(name), encoding, types[name], name).alias(name) for name, encoding in encodings.items())
        )

    @property
    def _snapshot(self) -> SnapshotTable:
        if self._source.snapshot is None:
            raise NotImplementedError(f"{self._source.location} has rows only in its events")
        return self._source.snapshot

    # ------------------------------------------------------------------------------------------------- details

    @cached_property
    def _description(self) -> DebeziumDescription:
        return self._source.at()

    @cached_property
    def _events(self) -> Events:
        return Events(self._description.layout, self._source.key)

    @property
    def _columns(self) -> list[Column]:
        return [column(name) for name in self._description.types]


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

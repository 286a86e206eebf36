"""
Debezium's events on Spark: their rows, their order, and the last one of each key.

Events may come out of order and several times. Of one key, their positions in the database's log give their order: a
row is locked until the transaction that changed it has ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.sources.debezium.layout import EventLayout, Path
from airflow_backfill_provider.sources.event_table.events import DELETE, UPDATE, KeyedEvents
from airflow_backfill_provider.sources.shared.balanced import any_of
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.sources.shared.postgresql.spark_errors import UNCHANGED_VALUE
from airflow_backfill_provider.sources.shared.refusals import refused_column, unusable_row

READ, INSERT, TRUNCATE, MESSAGE = "r", "c", "t", "m"
"""Debezium's other kinds of events. An event of kind ``r`` has a row that a snapshot read."""

OF_ROWS = (READ, INSERT, UPDATE, DELETE)

CLOCK_MILLISECONDS = 300_000
"""How much later an event may be than one with a later position; clocks are set back sometimes."""

UNAVAILABLE = "__debezium_unavailable_value"
"""What Debezium writes for a long value (TOAST) that an update did not change, because the log left it out."""


@dataclass(frozen=True, slots=True)
class Events(KeyedEvents):
    """
    Events of one table.

    :param layout: where the events have what.
    :param key: the key columns.
    """

    layout: EventLayout
    key: Sequence[str]

    @property
    def types(self) -> Mapping[str, str]:
        """The columns of the database's table."""
        return self.layout.types

    @property
    def order(self) -> str:
        """
        Name of the column that orders the events of a key.

        A row that a snapshot read is as of the position that its event has, and changes at this position come later. A
        change of a key is a delete and an insert at one position.
        """
        return self.own.named("order")

    @property
    def time(self) -> str:
        """Name of the column with the time of the commit, in milliseconds; null if it is unknown."""
        return self.own.named("time")

    @property
    def compared(self) -> Mapping[str, Column]:
        """The time of the commit."""
        return {"time": F.col(self.time)}

    def problem(self, newest: Column) -> Column:
        """
        Return a text for an event that has an earlier position than another one, but a later time.

        Positions of another database, or of another timeline, are not comparable, and an event would be lost silently.
        """
        comes_late = ~F.coalesce(F.col(self.order) > newest.getField("order"), F.lit(True))
        is_newer = F.coalesce(F.col(self.time) > newest.getField("time") + CLOCK_MILLISECONDS, F.lit(False))
        problem = "an event has an earlier position than another one of its key, but a later time, as after a failover"
        return F.when(comes_late & is_newer, F.lit(problem))

    def of(self, stored: DataFrame, *extra: Column) -> DataFrame:
        """
        Return the events of rows and of TRUNCATE.

        Messages and tombstones are left out. Any other row that is no complete event fails when it is read.

        :param stored: rows of the table of events.
        :param extra: other columns to keep.
        :returns: the row's columns (of a delete, as far as they are known), and the package's own.
        """
        layout = self.layout
        kind, position = _at(layout.operation), _at(layout.position)
        keys = [self._value(name) for name in self.key]
        is_tombstone = kind.isNull() & position.isNull() & ~_any(key.isNotNull() for key in keys)
        is_message = F.coalesce(kind == MESSAGE, F.lit(False))
        is_known = F.coalesce(kind.isin(*OF_ROWS, TRUNCATE), F.lit(False))
        lacks_key = kind.isin(*OF_ROWS) & _any(key.isNull() for key in keys)
        refused = (
            F.when(~is_known, unusable_row("an event is of an unknown kind (op)"))
            .when(position.isNull(), unusable_row(f"an event has no position ({'.'.join(layout.position)})"))
            .when(lacks_key, unusable_row(f"an event has no key ({', '.join(self.key)})"))
        )
        order = F.struct(
            F.coalesce(refused.cast("long"), position.cast("long")).alias("position"),
            F.when(kind == READ, 0).when(kind == DELETE, 1).otherwise(2).alias("step"),
        )
        time = F.lit(None) if layout.committed_at is None else _at(layout.committed_at)
        return stored.filter(~(is_tombstone | is_message)).select(
            *(self._value(name).alias(name) for name in layout.types),
            kind.alias(self.kind),
            order.alias(self.order),
            time.cast("long").alias(self.time),
            *extra,
        )

    def _value(self, name: str) -> Column:
        layout = self.layout
        new = _at((*layout.new, name))
        if layout.old is None:
            return new
        old = _at((*layout.old, name)) if name in layout.old_columns else F.lit(None)
        return F.when(_at(layout.operation) == DELETE, old).otherwise(new)

    # ------------------------------------------------------------------------------------- unchanged long values

    def with_known(self, events: DataFrame) -> DataFrame:
        """Add the newest known value of each long column, up to each event."""
        known = {
            self._known(name): F.last(self._known_of(name), ignorenulls=True).over(self.in_order) for name in self._long
        }
        # Spark Connect refuses an empty list of columns.
        return events.withColumns(known) if known else events

    def completed(self, events: DataFrame, matters: Column) -> DataFrame:
        """
        Replace long values that an update did not change.

        :param events: with the columns of :meth:`with_known`, which are left out of the result.
        :param matters: the condition that an unknown value fails the epoch.
        """
        columns = {name: self._completed(name, matters) for name in self._long}
        return events.withColumns(columns).drop(*map(self._known, self._long)) if columns else events

    def _completed(self, name: str, matters: Column) -> Column:
        known, kind = F.col(self._known(name)), self._kind_of(name)
        is_known = F.coalesce(known.getField("is_known"), F.lit(False))
        unknown = F.when(matters, refused_column(UNCHANGED_VALUE, name)).cast(kind)
        value = F.when(is_known, known.getField("value")).otherwise(unknown)
        return F.when(self._is_unavailable(name), value).otherwise(column(name))

    def _known_of(self, name: str) -> Column:
        """
        Return what an event says about a long value; null if it says nothing.

        Once a row has left the key, nothing is known: the next one may come from another key, with a value of its own.
        """
        nothing = F.struct(F.lit(False).alias("is_known"), F.lit(None).cast(self._kind_of(name)).alias("value"))
        known = F.struct(F.lit(True).alias("is_known"), column(name).alias("value"))
        return F.when(F.col(self.kind) == DELETE, nothing).when(~self._is_unavailable(name), known)

    def _is_unavailable(self, name: str) -> Column:
        kind, placeholder = self._kind_of(name), F.lit(UNAVAILABLE)
        found = F.array(placeholder) if kind.startswith("array") else placeholder.cast(kind)
        return F.coalesce(column(name) == found, F.lit(False))

    def _kind_of(self, name: str) -> str:
        return _long_type(self.layout.types[name])

    @property
    def _long(self) -> list[str]:
        """The columns whose unchanged values may be left out."""
        return [name for name, kind in self.layout.types.items() if _long_type(kind)]

    def _known(self, name: str) -> str:
        return self.own.named(f"known_{self._long.index(name)}")


def _at(path: Path) -> Column:
    return F.col(".".join(map(quote, path)))


def _any(conditions: Iterable[Column]) -> Column:
    return any_of([*conditions])


def _long_type(kind: str) -> str:
    """Return Spark's name of a type with long values for which Debezium has a placeholder; empty for other types."""
    if kind in {"string", "binary"}:
        return kind
    is_of_texts = kind.startswith("{") and json.loads(kind).get("elementType") == "string"
    return "array<string>" if is_of_texts else ""

"""
Upserts on Spark as events, each with the state of its key.

Of a key, the row with the greatest order counts. What has no order is refused instead of guessed: rows that are equal
in order, but not otherwise, and rows of several splits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.sources.event_table.events import DELETE, UPDATE, KeyedEvents
from airflow_backfill_provider.sources.shared.balanced import any_of
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.sources.shared.refusals import unusable_row
from airflow_backfill_provider.sources.upserts.definition import UpsertsUpstream

_CONTENT, _SPLIT = "content", "split"


@dataclass(frozen=True, slots=True)
class UpsertEvents(KeyedEvents):
    """
    The rows of one table of upserts.

    :param columns: the table's columns → type.
    :param key: the key columns.
    :param upstream: which columns say what of a row.
    """

    columns: Mapping[str, str]
    key: Sequence[str]
    upstream: UpsertsUpstream

    @property
    def types(self) -> Mapping[str, str]:
        """All columns of the table."""
        return self.columns

    @property
    def compared(self) -> Mapping[str, Column]:
        """The split, if there are several, and a hash of the row."""
        split = {} if self.upstream.split is None else {_SPLIT: column(self.upstream.split)}
        hashed = (column(name) for name, kind in self.columns.items() if _has_hash(kind))
        return {**split, _CONTENT: F.xxhash64(*hashed)}

    def problem(self, newest: Column) -> Column:
        """Return a text for an upsert of another split than the one before, or of the same order, but not its copy."""
        differs = {name: ~newest.getField(name).eqNullSafe(value) for name, value in self.compared.items()}
        is_of_other_split = differs.get(_SPLIT, F.lit(False))
        is_tie = newest.getField("order") == F.col(self.order)
        return F.when(
            newest.isNotNull() & is_of_other_split,
            F.lit(
                f"a key has rows of several splits (column {self.upstream.split}), so it is not known which is newer; "
                "was the topic given more partitions?"
            ),
        ).when(
            newest.isNotNull() & is_tie & differs[_CONTENT],
            F.lit(
                f"a key has two different rows with the same {', '.join(self.upstream.ordered_by)}, so it is not known "
                "which is newer; name more columns in ordered_by"
            ),
        )

    def of(self, stored: DataFrame, *extra: Column) -> DataFrame:
        """Return all rows as events."""
        order = [column(name) for name in self.upstream.ordered_by]
        deleted = F.lit(False) if self.upstream.deleted is None else column(self.upstream.deleted)
        refused = (
            F.when(_any_null(map(column, self.key)), unusable_row(f"a row has no key ({', '.join(self.key)})"))
            .when(_any_null(order), unusable_row(f"a row has no order ({', '.join(self.upstream.ordered_by)})"))
            .when(deleted.isNull(), unusable_row(f"a row does not say whether it is deleted ({self.upstream.deleted})"))
        )
        kind = F.when(deleted, F.lit(DELETE)).otherwise(F.lit(UPDATE))
        return stored.select(
            *map(column, self.columns),
            F.coalesce(refused.cast("string"), kind).alias(self.kind),
            F.struct(*order).alias(self.order),
            *extra,
        )

    def last(self, events: DataFrame) -> DataFrame:
        """Return the last upsert of each key; refuse keys whose upserts have no order."""
        before = self.own.named("before")
        stamped = events.withColumn(before, F.lag(self.stamp).over(self.in_order))
        sound = stamped.filter(self.sound(F.col(before), F.lit(True))).drop(before)
        # A dataclass with slots is a second class, which an empty super() does not find.
        return super(UpsertEvents, self).last(sound)


def _has_hash(kind: str) -> bool:
    """Return whether Spark has a hash of a type."""
    return kind != "variant" and '"map"' not in kind and '"variant"' not in kind


def _any_null(columns: Iterable[Column]) -> Column:
    return any_of([found.isNull() for found in columns])

"""
The changes that a window of events makes, on Spark.

A view shows the last event of each key, by the order that the events have. So an event that comes late, or a second
time, changes nothing if a later one of its key is there already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.sources.event_table.events import DELETE, UPDATE, KeyedEvents
from airflow_backfill_provider.sources.reader import CHANGE_OFFSET, CHANGE_TYPE
from airflow_backfill_provider.sources.shared.by_key import column


@dataclass(frozen=True, slots=True)
class WindowOfEvents:
    """
    Nets the events of a window.

    :param events: the names of the events' columns.
    :param kept: the columns of old rows that changes have.
    :param has_rows_without_events: whether rows may exist that had no event before the window.
    """

    events: KeyedEvents
    kept: Sequence[str]
    has_rows_without_events: bool

    def changes(self, window: DataFrame, before: DataFrame) -> DataFrame:
        """
        Return the changes, at most two per key and version.

        :param window: the events of the window, each with its version in :data:`CHANGE_OFFSET`.
        :param before: the last events of the window's keys before it, with an earlier version.
        :returns: as :meth:`SourceReader.changes`. Of old rows, only some columns are known.
        """
        events, own = self.events, self.events.own
        is_before, is_last, old_kind = own.named("is_before"), own.named("is_last"), own.named("old_kind")
        old = own.numbered("old", len(self.kept))
        both = window.withColumn(is_before, F.lit(False)).unionByName(before.withColumn(is_before, F.lit(True)))
        by_version = Window.partitionBy(*map(column, events.key)).orderBy(CHANGE_OFFSET)
        netted = self._last_of_version(self._effective(events.with_known(both))).withColumns(
            {
                is_last: F.lead(F.lit(1)).over(by_version).isNull(),
                old_kind: F.lag(events.kind).over(by_version),
                **{name: F.lag(column(kept)).over(by_version) for name, kept in zip(old, self.kept, strict=True)},
            }
        )
        deletes = F.col(events.kind) == DELETE
        completed = events.completed(netted.filter(~F.col(is_before)), F.col(is_last) & ~deletes)
        existed = F.coalesce(F.col(old_kind) != DELETE, self._existed_without_event())
        change = (
            F.when(deletes & existed, F.array(F.lit("delete")))
            .when(deletes, F.array().cast("array<string>"))
            .when(existed, F.array(F.lit("update_preimage"), F.lit("update_postimage")))
            .otherwise(F.array(F.lit("insert")))
        )
        is_old = F.col(CHANGE_TYPE).isin("delete", "update_preimage")
        old_of = dict(zip(self.kept, old, strict=True))
        return completed.withColumn(CHANGE_TYPE, F.explode(change)).select(
            *(
                F.when(~is_old, column(name))
                .otherwise(F.coalesce(F.col(old_of[name]), column(name)) if name in old_of else F.lit(None))
                .alias(name)
                for name in events.types
            ),
            CHANGE_TYPE,
            CHANGE_OFFSET,
        )

    def _existed_without_event(self) -> Column:
        """Return whether a row existed before the window if it had no event until then."""
        if not self.has_rows_without_events:
            return F.lit(False)
        return F.col(self.events.kind).isin(UPDATE, DELETE)

    def _effective(self, both: DataFrame) -> DataFrame:
        """Leave out each event that comes after a later one of its key."""
        events, newest = self.events, self.events.own.named("newest")
        earlier = self._as_they_came.rowsBetween(Window.unboundedPreceding, -1)
        found = F.col(newest)
        is_later = F.coalesce(F.col(events.order) > found.getField("order"), F.lit(True))
        stamped = both.withColumn(newest, F.max(events.stamp).over(earlier))
        return stamped.filter(events.sound(found, is_later)).drop(newest)

    def _last_of_version(self, effective: DataFrame) -> DataFrame:
        following = self.events.own.named("following")
        return (
            effective.withColumn(following, F.lead(CHANGE_OFFSET).over(self._as_they_came))
            .filter(~F.col(CHANGE_OFFSET).eqNullSafe(F.col(following)))
            .drop(following)
        )

    @property
    def _as_they_came(self) -> WindowSpec:
        return Window.partitionBy(*map(column, self.events.key)).orderBy(CHANGE_OFFSET, self.events.order)

"""Reads a table of upserts on Spark: the rows and the changes that they are about."""

from __future__ import annotations

from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.event_table.reader import EventTableReader
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.sources.upserts.events import UpsertEvents
from airflow_backfill_provider.sources.upserts.source import UpsertsSource


class UpsertsReader(EventTableReader):
    """
    Reads one table of upserts.

    :param source: the table of upserts.
    """

    source: UpsertsSource

    def rows_to_verify(self, offset: Offset) -> DataFrame:
        """
        Return the row with the greatest order of each key, unless that is deleted.

        It is read from the table's columns, without the events that epochs make of them, and by an aggregate instead of
        a window. What has no order, epochs refuse.
        """
        upstream, newest = self.source.upstream, self.events.own.named("newest")
        order = F.struct(*map(column, upstream.ordered_by))
        last = (
            self.stored_at(offset).groupBy(*self.keys).agg(F.max_by(F.struct(*self.columns), order).alias(newest))
        ).select(F.col(f"{newest}.*"))
        return last if upstream.deleted is None else last.filter(~F.coalesce(column(upstream.deleted), F.lit(False)))

    @cached_property
    def events(self) -> UpsertEvents:
        """The rows of the table as events."""
        return UpsertEvents(self.source.at().types, self.source.key, self.source.upstream)

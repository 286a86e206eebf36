"""Reads a table of events on Spark: the rows and the changes that they are about."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.delta.reader import DeltaReader
from airflow_backfill_provider.sources.delta.versions import version_of
from airflow_backfill_provider.sources.event_table.changes import WindowOfEvents
from airflow_backfill_provider.sources.event_table.events import DELETE, KeyedEvents
from airflow_backfill_provider.sources.event_table.source import EventTableSource
from airflow_backfill_provider.sources.reader import CHANGE_OFFSET, CHANGE_TYPE, SourceReader
from airflow_backfill_provider.sources.shared.by_key import column, with_keys
from airflow_backfill_provider.sources.shared.refusals import unusable_row


class EventTableReader(SourceReader):
    """
    Reads one table of events.

    :param source: the table of events.
    """

    keys_are_unique: ClassVar[bool] = True

    def __init__(self, spark: SparkSession, source: EventTableSource) -> None:
        self.spark = spark
        self.source = source
        self.stored = DeltaReader(spark, source.location, source.empty_is_null, source.files_at)

    @cached_property
    @abstractmethod
    def events(self) -> KeyedEvents:
        """What the events are."""

    def rows(self, offset: Offset) -> DataFrame:
        """Return the row of the last event of each key, unless that is a delete."""
        return self.rows_after(self.history(offset))

    def rows_after(self, events: DataFrame) -> DataFrame:
        """Return the rows that events leave."""
        return self.events.last(events).filter(F.col(self.events.kind) != DELETE).select(*self.columns)

    def empty(self) -> DataFrame:
        """Return all columns, without rows."""
        return self.events.of(self.stored.empty()).select(*self.columns)

    def changes(self, after: Offset, up_to: Offset) -> DataFrame:
        """Return the changes that the events in ``(after, up_to]`` make."""
        window = self.window(after, up_to)
        return self.net(self.history(after), window, window.select(*self.keys).distinct(), after)

    def net(self, before: DataFrame, window: DataFrame, keys: DataFrame, after: Offset) -> DataFrame:
        """
        Return the changes that a window of events makes.

        :param before: the events before it, all about rows.
        :param window: the events of the window, all about rows, each with its version.
        :param keys: the keys of the window.
        :param after: the offset before the window.
        """
        events, has_database = self.events, self.source.present is not None
        kept = list(dict.fromkeys([*events.key, *self.source.definition.distribution_key]))
        needed = with_keys(before, keys, events.key)
        earlier = events.last(needed).withColumn(CHANGE_OFFSET, F.lit(version_of(after)).cast("long"))
        return WindowOfEvents(events, kept, has_rows_without_events=has_database).changes(window, earlier)

    def history(self, up_to: Offset) -> DataFrame:
        """Return the events as of a version."""
        return self.events.of(self.stored_at(up_to))

    def stored_at(self, offset: Offset) -> DataFrame:
        """Return the rows of the table of events as of a version."""
        return self.stored.rows(offset) if version_of(offset) >= 0 else self.stored.empty()

    def window(self, after: Offset, up_to: Offset) -> DataFrame:
        """Return the events that some versions appended, each with its version."""
        return self.events.of(self._appended(after, up_to), F.col(CHANGE_OFFSET))

    def _appended(self, after: Offset, up_to: Offset) -> DataFrame:
        """Return the rows that some versions appended to the table of events; refuse other changes of it."""
        if up_to <= after:
            # Delta refuses an empty window.
            nothing = {CHANGE_TYPE: F.lit(None).cast("string"), CHANGE_OFFSET: F.lit(None).cast("long")}
            return self.stored.empty().withColumns(nothing)
        kind = F.col(CHANGE_TYPE)
        problem = unusable_row("the table of events is not append-only: events were changed, or removed").cast(
            "boolean"
        )
        is_event = F.when(kind == "insert", F.lit(True))
        if self.source.present is not None:
            # The rows are in the database, so old events may be cleaned up.
            is_event = is_event.when(kind == "delete", F.lit(False))
        return self.stored.changes(after, up_to).filter(is_event.otherwise(problem))

    @property
    def keys(self) -> list[Column]:
        """The key columns."""
        return [column(name) for name in self.events.key]

    @property
    def columns(self) -> list[Column]:
        """The columns of rows."""
        return [column(name) for name in self.events.types]

"""Reads a table of upserts on Spark: the rows and the changes that they are about."""

from __future__ import annotations

from functools import cached_property

from airflow_backfill_provider.sources.event_table.reader import EventTableReader
from airflow_backfill_provider.sources.upserts.events import UpsertEvents
from airflow_backfill_provider.sources.upserts.source import UpsertsSource


class UpsertsReader(EventTableReader):
    """
    Reads one table of upserts.

    :param source: the table of upserts.
    """

    source: UpsertsSource

    @cached_property
    def events(self) -> UpsertEvents:
        """The rows of the table as events."""
        return UpsertEvents(self.source.at().types, self.source.key, self.source.upstream)

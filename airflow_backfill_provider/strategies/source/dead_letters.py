"""The table of records that cannot be read, each with the reason and the epoch that left it out of the view."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.lake.tables.existing import is_table
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.own_table import create_own_table
from airflow_backfill_provider.spark.stamped_table import StampedTable
from airflow_backfill_provider.spark.stamps import TableKind
from airflow_backfill_provider.strategies.reader import ReaderContext
from airflow_backfill_provider.strategies.source.location import DEAD_LETTERS, dead_letters_of

logger = logging.getLogger(__name__)

PART = "dead-letters"
"""The name of the write that appends an epoch's records."""

_KIND = TableKind(DEAD_LETTERS, StateError, "rebuild the job")


class DeadLetters:
    """
    The table of one incarnation.

    :param context: the objects that the reader works with.
    """

    def __init__(self, context: ReaderContext) -> None:
        self._context = context
        self.location = dead_letters_of(context.settings)
        self._table = StampedTable(context.spark, self.location, _KIND, context.storage_options)
        self._identity = ViewIdentity.of(context.settings)

    @property
    def are_kept(self) -> bool:
        """Whether the job leaves records that cannot be read out of the view, and lists them."""
        return self._context.settings.definition.upstream.lists_unreadable

    def create(self) -> None:
        """Create the empty table, unless it exists."""
        if self._exists():
            return
        empty = self._context.job_rows.reader.unreadable([])
        if empty is not None:
            rows = empty.withColumn("epoch", F.lit(0).cast("long"))
            create_own_table(rows, self.location, self._identity, exists=self._exists)

    def _exists(self) -> bool:
        return is_table(self.location, self._context.storage_options)

    def add(self, barrier: Barrier, places: Sequence[SplitRange]) -> None:
        """Append the records at an epoch's places that cannot be read, once."""
        if not places or self._table.is_written(PART, self._identity, barrier):
            return
        found = self._context.job_rows.reader.unreadable(places)
        if found is None:
            return
        rows = found.withColumn("epoch", F.lit(barrier.epoch).cast("long")).persist(KEPT)
        try:
            count = rows.count()
            if count:
                self._table.append(rows, PART, self._identity, barrier)
                logger.warning(
                    "epoch %d leaves %d records of %s out of the view, because they cannot be read; see %s",
                    barrier.epoch,
                    count,
                    self._context.upstream.location,
                    self.location,
                )
        finally:
            rows.unpersist()

"""Writes a view of groups whose rows are only appended: a chunk and the rows that come are added to their groups."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.unit_work import UnitWork
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.shapes.changes import Changes
from airflow_backfill_provider.shapes.group.added_rows import not_added
from airflow_backfill_provider.shapes.group.fold_writer import FoldWriter
from airflow_backfill_provider.shapes.group.folded_query import FoldedQuery
from airflow_backfill_provider.shapes.group.grouped_rows import Images
from airflow_backfill_provider.spark.stamps import snapshot_part


class AddedRowsWriter(FoldWriter):
    """
    Writes one job's view.

    A group may have rows in many chunks, so each chunk is folded like changes. The rows need not be read again, and may
    be gone by then: only a repair reads them.
    """

    def check(self, rows: DataFrame, table_properties: Mapping[str, str]) -> None:
        """Refuse what a view of groups may not have, and a query that cannot be folded."""
        super().check(rows, table_properties)
        found = self._fold()
        if not isinstance(found, FoldedQuery):
            raise not_added(found, self._context.job_rows.location)

    def write_changes(
        self,
        changes: Changes,
        identity: ViewIdentity,
        barrier: Barrier,
        *,
        repairs: bool,
        since: TableVersions | None,
    ) -> UnitWork | None:
        """Add the rows that came; whether the view may have foreign rows is left to the repair that removes these."""
        del repairs, since
        return self._fold_changes(changes, identity, barrier)

    def write_part_of_leads(
        self,
        rows: DataFrame,
        further: Mapping[str, DataFrame],
        part: int,
        identity: ViewIdentity,
        barrier: Barrier,
        *,
        since: TableVersions | None,
    ) -> None:
        """Add the rows of a part of history."""
        del since
        images = Images(self._rows.empty(), self._rows.chunk(rows, further, part, barrier))
        self._fold_in(images, snapshot_part(part), identity, barrier)

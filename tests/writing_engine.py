"""An engine without Spark whose views other jobs can read: epochs write rows, and the last one finishes the view."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.engine import PartWrites
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.lake.tables.view_identity import FINISHED_PROPERTY, STATE_PROPERTY
from tests.builders import CHANGE_DATA_FEED
from tests.plain_engine import CountingEngine


def row(number: int) -> pa.Table:
    """Return a row of such a view."""
    return pa.table({"rows_are_only_counted": pa.array([number], pa.int64())})


class WritingEngine(CountingEngine):
    """Writes the number of the epoch to the view, and the properties that readers of the view need."""

    def apply_changes(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> PartWrites:
        """Write a row."""
        write_deltalake(settings.definition.view_location, row(barrier.epoch), mode="append")
        return super().apply_changes(settings, barrier, since=since)

    def mark_finished(self, settings: JobSettings, barrier: Barrier) -> None:
        """Say that the view is finished, once."""
        table = DeltaTable(settings.definition.view_location)
        if FINISHED_PROPERTY not in table.metadata().configuration:
            said = {STATE_PROPERTY: settings.definition.state, FINISHED_PROPERTY: "true", **CHANGE_DATA_FEED}
            table.alter.set_table_properties(said, raise_if_not_exists=False)

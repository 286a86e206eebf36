"""What the jobs over orders have in common, whatever their upstream is."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable

from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs.backfill import Backfill


class OrdersJob:
    """
    A job whose view has cents by order.

    :param file: the job's file.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    @property
    def backfill(self) -> Backfill:
        """The job's tables."""
        return Backfill(BackfillJob.from_yaml(self.file))

    def view(self) -> dict[int, int]:
        """The view's rows."""
        rows = DeltaTable(self.backfill.job.materialized_view).to_pyarrow_table().to_pylist()
        assert len({row["order_id"] for row in rows}) == len(rows)
        return {row["order_id"]: row["cents"] for row in rows}

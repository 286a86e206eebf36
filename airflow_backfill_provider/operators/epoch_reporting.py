"""Base class of the operators that report epochs: logs, metrics, assets and OpenLineage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow.sdk import Context

from airflow_backfill_provider.assets import emit, materialized_view_asset
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.operators.base import BackfillOperator
from airflow_backfill_provider.operators.summaries import epoch_event
from airflow_backfill_provider.telemetry import epoch_log
from airflow_backfill_provider.telemetry.metrics import emit_epoch_metrics
from airflow_backfill_provider.telemetry.openlineage import EpochLineageMixin

if TYPE_CHECKING:
    from airflow_backfill_provider.core.barrier import Barrier
    from airflow_backfill_provider.core.epoch_record import EpochCommit
    from airflow_backfill_provider.protocol.backfill import Backfill


class EpochReportingOperator(EpochLineageMixin, BackfillOperator):
    """A task that reports its epoch in its log, in metrics, through its outlets and to OpenLineage."""

    def log_plan(self, backfill: Backfill, barrier: Barrier) -> None:
        """Log the plan of an epoch."""
        for line in epoch_log.begin(barrier, backfill.job.upstream.location):
            self.log.info("%s", line)
        for warning in barrier.warnings:
            self.log.warning("%s", warning)

    def report_progress(self, backfill: Backfill, commits: Sequence[EpochCommit]) -> None:
        """Log the job's progress and send the metrics of epochs that this task run has committed."""
        try:
            status = backfill.status()
        except BackfillError as error:
            # The epochs are committed, even if the upstream can no longer be read.
            self.log.warning("the job's progress is unknown: %s", error)
            return
        self.log.info("after epoch %d: %s", commits[-1].epoch, epoch_log.progress(status))
        for alarm in status.alarms:
            self.log.warning("%s", alarm)
        for commit in commits:
            emit_epoch_metrics(status, commit)

    def emit_epoch(self, context: Context, backfill: Backfill, barrier: Barrier, commit: EpochCommit) -> None:
        """Report a committed epoch through the task's outlets and to OpenLineage."""
        self.remember_lineage(backfill, barrier, commit)
        extra = {"event": "epoch", **epoch_event(backfill, barrier, commit)}
        emit(context, self.outlets, [materialized_view_asset(backfill.job, self.backfill_conn_id)], extra)

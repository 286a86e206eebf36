"""Base class of the operators that report epochs: logs, metrics, assets and OpenLineage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from airflow_backfill_provider.assets import announces_views, emit, materialized_view_asset
from airflow_backfill_provider.core.epoch.announced import CommittedEpoch, after, in_events, to_announce, to_measure
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.operators.announcing import Announcing
from airflow_backfill_provider.operators.base import BackfillOperator
from airflow_backfill_provider.operators.summaries import event_of_epochs
from airflow_backfill_provider.telemetry import epoch_log
from airflow_backfill_provider.telemetry.metrics import emit_epoch_metrics
from airflow_backfill_provider.telemetry.openlineage import EpochLineageMixin

if TYPE_CHECKING:
    from airflow_backfill_provider.core.epoch.barrier import Barrier
    from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
    from airflow_backfill_provider.core.status.job_status import JobStatus
    from airflow_backfill_provider.jobs.backfill import Backfill

Callback = Callable[[Context], Any]


class EpochReportingOperator(EpochLineageMixin, BackfillOperator):
    """
    A task that reports epochs in its log, in metrics, through its outlets and to OpenLineage.

    It reports every committed epoch that no succeeded task run of its DAG has reported, whoever ran the epoch.

    :param on_success_callback: as in Airflow. One more callback records what the succeeded task run has reported.
    """

    _announcing: Announcing | None = None
    _newest_announced: CommittedEpoch | None = None

    def __init__(self, *, on_success_callback: Callback | Collection[Callback] | None = None, **kwargs: Any) -> None:
        further = on_success_callback or ()
        callbacks = [further] if callable(further) else list(further)
        super().__init__(on_success_callback=[record_announcement, *callbacks], **kwargs)

    def log_plan(self, backfill: Backfill, barrier: Barrier) -> None:
        """Log the plan of an epoch."""
        for line in epoch_log.begin(barrier, backfill.job.upstream.location):
            self.log.info("%s", line)
        for warning in barrier.warnings:
            self.log.warning("%s", warning)

    def begin_announcing(self, context: Context, backfill: Backfill) -> None:
        """Note from which epoch on the DAG announces a job's epochs; call this before an epoch is pinned or run."""
        if announces_views(self.outlets):
            self._announcing = Announcing(backfill.store, context["ti"].dag_id)
            self._announcing.begin()

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
        if self._announcing is None:
            _send_metrics(status, commits)
        else:
            self._measure(self._announcing, self._announcing.log(), lambda: status, commits)

    def announce(self, context: Context, backfill: Backfill, own: Sequence[CommittedEpoch] = ()) -> int:
        """
        Report committed epochs, in order, through metrics, the task's outlets and to OpenLineage.

        They are the epochs that no succeeded task run of the DAG has announced, and those of this task run. A task
        without outlets for them reports only its own.

        :param own: the epochs of this task run.
        :returns: how many epochs were reported.
        """
        log: list[CommittedEpoch] = []
        if self._announcing is not None:
            log = self._announcing.log()
            self._measure(self._announcing, log, backfill.status, ())
            log = after(self._announcing.announced.epoch, log)
        epochs = to_announce(log, own)
        for barrier, commit in epochs:
            self.remember_lineage(backfill, barrier, commit)
        view = materialized_view_asset(backfill.job, self.backfill_conn_id)
        for together in in_events(epochs):
            emit(context, self.outlets, [view], event_of_epochs(backfill, together))
        self._newest_announced = epochs[-1] if epochs else None
        if not self._task_run:
            # Another task called `execute`, so Airflow calls no callback of this one.
            self.record_success()
        self.collect_lineage()
        return len(epochs)

    def record_success(self) -> None:
        """Record what this task run announced; Airflow has stored the events of its outlets."""
        if self._announcing is not None and self._newest_announced is not None:
            barrier, commit = self._newest_announced
            self._announcing.announced_up_to(commit.epoch, barrier.incarnation)

    def _measure(
        self,
        announcing: Announcing,
        log: Sequence[CommittedEpoch],
        status: Callable[[], JobStatus],
        ran: Sequence[EpochCommit],
    ) -> None:
        """Send the metrics of epochs that this task run ran, and of those that its DAG pinned and no task run sent."""
        unmeasured = after(announcing.announced.measured, log)
        due = to_measure(unmeasured, dag_id=announcing.dag_id, ran=[commit.epoch for commit in ran])
        if not due:
            return
        try:
            _send_metrics(status(), [epoch.commit for epoch in due])
        except BackfillError as error:
            self.log.warning("metrics of %d epochs are not sent yet: %s", len(due), error)
            return
        announcing.measured_up_to(due[-1].number)


def record_announcement(context: Context) -> None:
    """
    Record what a succeeded task run announced.

    Airflow calls this after it has stored the task run's success, and with it the events of its outlets. If the process
    dies before, the next task run announces the same epochs again.
    """
    task = context["ti"].task
    if isinstance(task, EpochReportingOperator):
        task.record_success()


def _send_metrics(status: JobStatus, commits: Sequence[EpochCommit]) -> None:
    for commit in commits:
        emit_epoch_metrics(status, commit)

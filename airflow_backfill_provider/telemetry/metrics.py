"""
Sends the metrics of a committed epoch through Airflow's own metrics: to StatsD, Datadog or OpenTelemetry.

The job and its strategy are tags. If Airflow still sends its metrics under their legacy names, too
(``[metrics] legacy_names_on``), so does this module: ``backfill.<job>.rows_read``, for backends without tags.
"""

from __future__ import annotations

import logging

from airflow.sdk.configuration import conf
from airflow.sdk.observability import stats

from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.status.job_status import JobStatus

PREFIX = "backfill"

logger = logging.getLogger(__name__)


def emit_epoch_metrics(status: JobStatus, commit: EpochCommit) -> None:
    """
    Send the metrics of an epoch that was just committed; never raise.

    Only the task run that committed the epoch may call this, because a second call would be counted again.

    :param status: the job's status after the commit.
    :param commit: the epoch's commit.
    """
    try:
        _Sender(status.name, status.strategy).send(status, commit)
    except Exception:  # a metric that cannot be sent must not fail the task
        logger.warning("the metrics of epoch %d of job %s were not sent", commit.epoch, status.name, exc_info=True)


class _Sender:
    def __init__(self, job: str, strategy: str) -> None:
        self._job = job
        self._tags = {"job": job, "strategy": strategy}
        self._legacy = conf.getboolean("metrics", "legacy_names_on", fallback=True)

    def send(self, status: JobStatus, commit: EpochCommit) -> None:
        self._count("rows_read", commit.snapshot_read_row_count)
        self._count("rows_forwarded", commit.upstream_output_row_count)
        self._gauge("epoch_seconds", sum(commit.seconds.values()))
        behind = status.furthest or status
        self._gauge("lag_versions", behind.lag_versions)
        if behind.lag_seconds is not None:
            self._gauge("lag_seconds", behind.lag_seconds)
        self._gauge("vnodes_completed", status.vnodes.completed)

    def _count(self, name: str, count: int) -> None:
        stats.incr(f"{PREFIX}.{name}", count, tags=self._tags)
        if self._legacy:
            stats.incr(f"{PREFIX}.{self._job}.{name}", count)

    def _gauge(self, name: str, value: float) -> None:
        stats.gauge(f"{PREFIX}.{name}", value, tags=self._tags)
        if self._legacy:
            stats.gauge(f"{PREFIX}.{self._job}.{name}", value)

"""One job of a demo, and what the terminal says of it. It comes from the job's control tables, not from Airflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.status.chain import waits_for
from airflow_backfill_provider.core.status.job_status import JobStatus
from airflow_backfill_provider.jobs.backfill import Backfill
from demo.job import DemoJob


class FollowedJob:
    """
    A job that a demo follows.

    :param job: the job.
    :param storage_options: options of the object store.
    """

    def __init__(self, job: DemoJob, storage_options: Mapping[str, str] | None) -> None:
        self.job = job
        self._backfill = Backfill(BackfillJob.from_yaml(job.file), storage_options)
        self._printed_epoch = 0

    @property
    def name(self) -> str:
        """The job's name."""
        return self._backfill.job.name

    @property
    def state(self) -> str:
        """The location of the job's control tables."""
        return self._backfill.job.state

    @property
    def status(self) -> JobStatus | None:
        """The job's status; ``None`` before it is created."""
        return self._backfill.status() if self._backfill.store.created() else None

    @property
    def waiting(self) -> str:
        """Which job this one waits for, with that one's progress; empty if it waits for none."""
        return waits_for(self._backfill.chain)

    def new_epochs(self, status: JobStatus) -> Iterator[str]:
        """Yield a line for each epoch that is committed since the last call."""
        if status.epoch == self._printed_epoch:
            return
        barriers, commits = self._backfill.store.log(since_epoch=self._printed_epoch + 1)
        windows = {barrier.epoch: barrier.upstream for barrier in barriers}
        for commit in commits:
            window = windows[commit.epoch]
            yield (
                f"epoch {commit.epoch}: upstream {status.offset_name}s ({window.from_offset}, {window.to_offset}], "
                f"{text.rows(commit.snapshot_read_row_count)} read, {commit.upstream_output_row_count:,} changes, "
                f"{text.duration(sum(commit.seconds.values()))}"
            )
            self._printed_epoch = commit.epoch

"""
One job with its tables at hand: what the command line, the operators and the Spark applications hold.

Opening one costs nothing; every method reads what is there at that moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from airflow_backfill_provider import creation
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.core.settings import JobSettings
from airflow_backfill_provider.core.status import RECENT_EPOCHS, JobStatus, job_status
from airflow_backfill_provider.core.watchdog import read_up_to
from airflow_backfill_provider.lake.upstream import UpstreamTable
from airflow_backfill_provider.protocol.clock import Clock, utc_now
from airflow_backfill_provider.state.store import BackfillStore


@dataclass(frozen=True)
class Backfill:
    """
    A job, its control tables and its upstream.

    :param job: the definition.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    job: BackfillJob
    storage_options: Mapping[str, str] | None = None

    @classmethod
    def at(cls, state: str, storage_options: Mapping[str, str] | None = None) -> Backfill:
        """
        Open a created job by the location of its control tables alone.

        :raises JobNotCreatedError: if there is none.
        """
        settings = BackfillStore(state, storage_options).settings()
        return cls(BackfillJob(**settings.job), storage_options)

    @cached_property
    def store(self) -> BackfillStore:
        """The job's control tables."""
        return BackfillStore(self.job.state, self.storage_options)

    @cached_property
    def upstream(self) -> UpstreamTable:
        """The table that the job reads."""
        return UpstreamTable(self.job.upstream.path, self.storage_options)

    def settings(self) -> JobSettings:
        """
        Return the settings in force, also if the definition at hand was edited since the job was created.

        :raises JobNotCreatedError: if it was not created.
        :raises InvalidJobError: if the control tables belong to another job.
        """
        settings = self.store.settings()
        if settings.job["name"] != self.job.name:
            raise InvalidJobError(
                f"state: {self.job.state} holds the control tables of job {settings.job['name']}, not of "
                f"{self.job.name}; give each job its own folder"
            )
        return settings

    def require_created(self) -> JobSettings:
        """
        Return the settings of a job that was created with the very definition at hand.

        :raises JobNotCreatedError: if it was not created.
        :raises InvalidJobError: if it was created with another definition.
        """
        return creation.require_job(self.job, self.store)

    def status(self, clock: Clock = utc_now) -> JobStatus:
        """
        Describe the job as it is now.

        :raises JobNotCreatedError: if it was not created.
        """
        settings = self.store.settings()
        last = self.store.last_epoch()
        # Two more than the speed needs: an uncommitted barrier, and the one before the window.
        barriers, commits = self.store.log(since_epoch=max(last - RECENT_EPOCHS - 2, 0))
        return job_status(
            settings=settings,
            state=self.store.state(),
            barriers=barriers,
            commits=commits,
            feed=self.upstream.change_feed(read_up_to(settings, barriers, commits)),
            now=clock(),
        )

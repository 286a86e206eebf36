"""Operators of rebuilds that need nobody: the epochs of one beside its view, and one after a rebuild upstream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_backfill_provider.operators.base import SparkBackfillOperator
from airflow_backfill_provider.operators.epoch import RunEpochOperator
from airflow_backfill_provider.operators.job import submit
from airflow_backfill_provider.operators.summaries import settings_summary

if TYPE_CHECKING:
    from airflow_backfill_provider.jobs.backfill import Backfill


class RunRebuildEpochsOperator(RunEpochOperator):
    """
    Runs epochs of the rebuild that grows beside a view; skipped if there is none. (templated: those of its base)

    Like its base class for any other job. Once the rebuild is finished, the job's next epoch lets it take the view's
    place. Put this task after the job's own epochs, so that the served view stays fresh.

    Returns the epochs' summary, as its base class does.
    """

    def run_for(self, backfill: Backfill, context: Context) -> dict[str, Any]:
        """Run the epochs of the rebuild, after its creation if a crash left that undone."""
        from airflow_backfill_provider.jobs import creation

        successor = backfill.successor
        if successor is None:
            raise AirflowSkipException(f"no rebuild of job {backfill.job.name} grows beside its view")
        if not creation.is_created(successor.job, successor.store):
            submit(self, successor, "create", context)
        return self.run_own(successor, context)


class RebuildDownstreamOperator(SparkBackfillOperator):
    """
    Rebuilds a job once the job whose view it reads was rebuilt and has finished that view. Otherwise it does nothing.

    Put it between the task that creates the job and its epochs, as
    :func:`~airflow_backfill_provider.dag_factory.backfill_dag` does with ``rebuild_downstream=True``.

    A finished view stays in service until the rebuild takes its place; one that is not finished is emptied. The job's
    definition stays. Until the view upstream is finished, the task is skipped, and says what it waits for. A cancelled
    job stays cancelled. Every try looks again, so none starts over what an earlier one began.

    Returns the job's settings in force.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Rebuild the job, if its upstream was rebuilt."""
        with self.created() as backfill:
            settings = backfill.settings()
            if not settings.cancelled and backfill.upstream_was_rebuilt():
                backfill.require_finished_upstream()
                self.log.info("the view that job %s reads was rebuilt, so this job is, too", backfill.job.name)
                finished = settings.finished_epoch is not None
                submit(self, backfill, "rebuild-keep-serving" if finished else "rebuild", context)
                settings = backfill.settings()
        return settings_summary(settings)

"""The operator that runs the epochs of a rebuild while the former view is served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_backfill_provider.operators.epoch import RunEpochOperator
from airflow_backfill_provider.operators.job import submit

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

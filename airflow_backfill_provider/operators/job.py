"""Operators that create a job, rebuild it, and undo a rebuild."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException

from airflow_backfill_provider.assets import JOB_XCOM, job_extra
from airflow_backfill_provider.hooks.task_run import requester_of
from airflow_backfill_provider.operators.announcing import Announcing
from airflow_backfill_provider.operators.base import SparkBackfillOperator
from airflow_backfill_provider.operators.summaries import settings_summary

if TYPE_CHECKING:
    from airflow_backfill_provider.protocol.backfill import Backfill


class CreateBackfillJobOperator(SparkBackfillOperator):
    """
    Creates a job. Does nothing, and starts no Spark, if it was created with the same definition.

    Only Spark can check the job's query, so the first creation submits a Spark application.

    Returns the job's settings in force. The XCom ``backfill_job`` holds the definition, for the pages.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Create the job."""
        from airflow_backfill_provider.protocol import creation

        with self.opened() as backfill:
            context["ti"].xcom_push(JOB_XCOM, job_extra(self.job, self.backfill_conn_id))
            if creation.is_created(backfill.job, backfill.store):
                first = backfill.store.settings_history()[0]
                self.log.info("job %s was created by %s", backfill.job.name, first.requested_by)
            else:
                submit(self, backfill, "create", context)
            settings = backfill.require_created()
            Announcing(backfill.store, context["ti"].dag_id).begin()
            # The upstream of a cancelled job may be gone.
            if not settings.cancelled and (unfinished := backfill.upstream.at().unfinished):
                self.log.warning("%s", unfinished)
        return settings_summary(settings)


class RebuildBackfillOperator(SparkBackfillOperator):
    """
    Starts a job over, possibly with another definition: empties the view and its progress. Epoch numbers continue.

    With ``keep_serving``, the view stays and is kept fresh. The rebuild grows beside it, by
    :class:`~airflow_backfill_provider.operators.rebuild.RunRebuildEpochsOperator` (the task ``run_rebuild`` of a
    backfill's DAG), and takes its place once it is finished.

    Every try starts the job over, so clear the task only for that purpose. With ``keep_serving``, a try for the same
    definition changes nothing while the rebuild grows.

    Returns the job's settings in force.

    :param keep_serving: whether the view stays until the rebuild is finished.
    """

    def __init__(self, *, keep_serving: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.keep_serving = keep_serving

    def execute(self, context: Context) -> dict[str, Any]:
        """Rebuild the job."""
        with self.opened() as backfill:
            submit(self, backfill, "rebuild-keep-serving" if self.keep_serving else "rebuild", context)
            settings = backfill.require_created()
        return settings_summary(settings)


class RevertBackfillOperator(SparkBackfillOperator):
    """
    Undoes the newest rebuild: gives it up while it grows beside the view, or puts the former view back.

    Every try undoes a rebuild, so clear the task only for that purpose. Returns the job's settings in force.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Undo the rebuild."""
        from airflow_backfill_provider.protocol.revert import give_up_successor

        with self.opened() as backfill:
            before = backfill.settings()
            if give_up_successor(backfill.store, requested_by=str(requester_of(context))):
                self.log.info("the rebuild of job %s is given up; its view stays as it is", backfill.job.name)
            else:
                submit(self, backfill, "revert", context)
                self.log.info("the view of job %s is that from before settings %d", backfill.job.name, before.sequence)
            settings = backfill.settings()
        return settings_summary(settings)


def submit(operator: SparkBackfillOperator, backfill: Backfill, action: str, context: Context) -> None:
    """
    Submit the application of an action on a job.

    :param action: an action of ``spark_apps/backfill_job.py``.
    """
    definition = json.dumps(backfill.job.model_dump(mode="json"))
    requested_by = str(requester_of(context))
    try:
        operator.run_application(
            backfill, action, "backfill_job.py", [action, "--job", definition, "--requested-by", requested_by]
        )
    except AirflowException:
        if not backfill.store.created():
            # The definition was refused, so there are no settings.
            backfill.store.applications.forget(action)
        raise

"""Operators that create and rebuild a job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException

from airflow_backfill_provider.assets import JOB_XCOM, job_extra
from airflow_backfill_provider.hooks.task_run import requester_of
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
                _submit(self, backfill, "create", context)
            settings = backfill.require_created()
            if unfinished := backfill.upstream.at().unfinished:
                self.log.warning("%s", unfinished)
        return settings_summary(settings)


class RebuildBackfillOperator(SparkBackfillOperator):
    """
    Starts a job over, possibly with another definition: empties the view and its progress. Epoch numbers continue.

    Every try starts the job over, so clear the task only for that purpose.

    Returns the job's settings in force.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Rebuild the job."""
        with self.opened() as backfill:
            _submit(self, backfill, "rebuild", context)
            settings = backfill.require_created()
        return settings_summary(settings)


def _submit(operator: SparkBackfillOperator, backfill: Backfill, action: str, context: Context) -> None:
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

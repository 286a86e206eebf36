"""Operators that create a job, rebuild it, undo a rebuild, and change its query."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowException
from pydantic import ValidationError

from airflow_backfill_provider.assets import JOB_XCOM, job_extra
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.approval import Approval
from airflow_backfill_provider.hooks.task_run import requester_of
from airflow_backfill_provider.operators.announcing import Announcing
from airflow_backfill_provider.operators.base import SparkBackfillOperator
from airflow_backfill_provider.operators.summaries import settings_summary

if TYPE_CHECKING:
    from airflow_backfill_provider.jobs.backfill import Backfill

APPROVAL_XCOM = "backfill_approval"
"""The XCom of the task that asks for approval: the definition that it showed, as a digest."""


class CreateBackfillJobOperator(SparkBackfillOperator):
    """
    Creates a job. Does nothing, and starts no Spark, if it was created with the same definition.

    Only Spark can check the job's query, so the first creation submits a Spark application.

    Returns the job's settings in force. The XCom ``backfill_job`` holds the definition, for the pages.

    If the upstream is the view of another job, which has not finished it, the task is skipped.

    If a task of :class:`~airflow_backfill_provider.operators.approval.ApproveBackfillOperator` is upstream, this
    creates only the definition that the task asked about.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Create the job."""
        from airflow_backfill_provider.core.status.adoption_text import adoption_lines
        from airflow_backfill_provider.jobs import creation

        with self.opened() as backfill:
            self._require_approved(backfill, context)
            context["ti"].xcom_push(JOB_XCOM, job_extra(self.job, self.backfill_conn_id))
            if creation.is_created(backfill.job, backfill.store):
                first = backfill.store.settings_history()[0]
                self.log.info("job %s was created by %s", backfill.job.name, first.requested_by)
            else:
                backfill.require_finished_upstream()
                submit(self, backfill, "create", context)
                for line in adoption_lines(backfill.settings()):
                    self.log.info("job %s: %s", backfill.job.name, line)
            settings = backfill.require_created()
            Announcing(backfill.store, context["ti"].dag_id).begin()
        return settings_summary(settings)

    def _require_approved(self, backfill: Backfill, context: Context) -> None:
        """Refuse a definition that is not the one of an approval, for example because its file was changed since."""
        asking = [task.task_id for task in _upstream_of(self) if getattr(task, "asks_for_approval", False)]
        approvals = list(_approvals(context, asking))
        if not asking:
            return
        name = backfill.job.name
        if not approvals:
            raise InvalidJobError(
                f"job {name}: task {', '.join(asking)} has no approval of it; clear that task to ask again"
            )
        # If a DAG asks about several jobs, one of the approvals is about this one.
        about = [approval for approval in approvals if approval.job == name] or approvals
        about[-1].require(backfill.job, backfill.settings().incarnation if backfill.store.created() else "")


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
            backfill.require_finished_upstream()
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
        from airflow_backfill_provider.jobs.revert import give_up_successor

        with self.opened() as backfill:
            before = backfill.settings()
            if given_up := give_up_successor(backfill.store, requested_by=str(requester_of(context))):
                self.log.info("the %s of job %s is given up; its view stays as it is", given_up, backfill.job.name)
            else:
                submit(self, backfill, "revert", context)
                self.log.info("the view of job %s is that from before settings %d", backfill.job.name, before.sequence)
            settings = backfill.settings()
        return settings_summary(settings)


class ChangeBackfillOperator(SparkBackfillOperator):
    """
    Changes the query of a finished view to that of the job's definition, without another backfill.

    The next epoch writes what differs, together with its changes, in one commit. Starts no Spark, and does nothing, if
    the definition is in force already. What only a rebuild can change is refused. With ``cut_over: on_approval``, the
    change waits for an approval first, unless it changes no rows.

    Returns the job's settings in force.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Change the query."""
        from airflow_backfill_provider.jobs.changed_query import propose_change

        with self.opened() as backfill:
            proposed = propose_change(backfill.job, store=backfill.store, upstream=backfill.upstream)
            for line in proposed.lines:
                self.log.info("job %s: %s", backfill.job.name, line)
            proposed.require_possible()
            if not proposed.is_known:
                submit(self, backfill, "change", context)
            settings = backfill.require_created()
        return settings_summary(settings)


def _upstream_of(operator: BaseOperator) -> Iterable[Any]:
    return () if operator.get_dag() is None else operator.get_flat_relatives(upstream=True)


def _approvals(context: Context, task_ids: Iterable[str]) -> Iterator[Approval]:
    for task_id in task_ids:
        with suppress(ValidationError):
            yield Approval.model_validate(context["ti"].xcom_pull(task_ids=task_id, key=APPROVAL_XCOM))


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

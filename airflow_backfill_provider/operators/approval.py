"""Operators before the first epoch: show the plan of a backfill, and ask for approval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.job.approval import Approval
from airflow_backfill_provider.jobs.planning.markdown import definition_markdown, plan_markdown
from airflow_backfill_provider.operators.base import BackfillOperator
from airflow_backfill_provider.operators.job import APPROVAL_XCOM

if TYPE_CHECKING:
    from airflow_backfill_provider.jobs.backfill import Backfill
    from airflow_backfill_provider.jobs.planning.plan import BackfillPlan


class PlanBackfillOperator(BackfillOperator):
    """
    Plans a backfill from the upstream's statistics, without Spark. Writes nothing.

    Returns the plan (among others ``strategy, reason, rows, rows_left, bytes, epochs, warnings``, and ``estimates`` of
    the cost of each strategy), and ``markdown``, the same as text for people.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan the rest of the job."""
        del context
        with self.opened() as backfill:
            plan, markdown = _plan(backfill)
        self.log.info("%s", markdown)
        return {**plan.model_dump(mode="json"), "markdown": markdown}


class ApproveBackfillOperator(BackfillOperator, ApprovalOperator):
    """
    Shows the plan of a job that is not created yet, and waits for a user to approve it. (templated: job and these)

    Asks only until the job is created, so every DAG run of a schedule may begin with this task. While it waits, it
    holds neither a worker slot nor a trigger. A rejection skips all downstream tasks, whatever their trigger rules.

    Returns the answer and the user who gave it, or why no approval was needed. The XCom ``backfill_approval`` has what
    the question was about; a task of
    :class:`~airflow_backfill_provider.operators.job.CreateBackfillJobOperator` downstream creates nothing else.

    :param subject: the question; the default has the size of the backfill.
    :param body: Markdown to show instead of the definition and the plan.
    :param ignore_downstream_trigger_rules: whether a rejection also skips tasks that would run after skipped ones.
    :param kwargs: further arguments of Airflow's ``ApprovalOperator``, such as ``assigned_users``, ``notifiers``,
        ``response_timeout``, ``defaults`` (the answer after the timeout) or ``fail_on_reject``.
    """

    template_fields: Sequence[str] = ("job", "subject", "body")
    asks_for_approval = True

    def __init__(
        self, *, subject: str = "", body: str | None = None, ignore_downstream_trigger_rules: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(
            subject=subject, body=body, ignore_downstream_trigger_rules=ignore_downstream_trigger_rules, **kwargs
        )

    def execute(self, context: Context) -> Any:
        """Ask, unless the job is created."""
        with self.opened() as backfill:
            created = backfill.store.created()
            approval = Approval.of(backfill.job, backfill.settings().incarnation if created else "")
            context["ti"].xcom_push(APPROVAL_XCOM, approval.model_dump(mode="json"))
            if created:
                backfill.require_created()
                first = backfill.store.settings_history()[0]
                reason = f"job {backfill.job.name} was created by {first.requested_by}"
                self.log.info("no approval is needed: %s", reason)
                return {"asked": False, "reason": reason}
            plan, markdown = _plan(backfill)
        self.log.info("%s", markdown)
        self.subject = self.subject or f"Start the backfill of {plan.name}, {text.rows(plan.rows_left)}?"
        self.body = self.body or markdown
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """End the task according to the answer. With ``fail_on_reject``, no retry asks again."""
        try:
            return super().execute_complete(context, event)
        except HITLRejectException as error:
            raise AirflowFailException("the backfill was rejected; trigger a new DAG run to ask again") from error


def _plan(backfill: Backfill) -> tuple[BackfillPlan, str]:
    """Return a job's plan, and its definition and plan as Markdown."""
    from airflow_backfill_provider.jobs.planning.plan import make_plan
    from airflow_backfill_provider.jobs.planning.plan_text import describe_plan

    plan = make_plan(backfill)
    return plan, f"{definition_markdown(backfill.job)}\n{plan_markdown(describe_plan(plan))}"

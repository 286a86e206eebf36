"""Operators before the first epoch: show what a backfill would do, and ask whether it may."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException

from airflow_backfill_provider.core import text
from airflow_backfill_provider.operators.base import BackfillOperator
from airflow_backfill_provider.planning.markdown import definition_markdown, plan_markdown

if TYPE_CHECKING:
    from airflow_backfill_provider.planning.plan import BackfillPlan
    from airflow_backfill_provider.protocol.backfill import Backfill


class PlanBackfillOperator(BackfillOperator):
    """
    Says what a backfill would do, from the upstream's Delta log and without Spark: nothing is written.

    Returns the plan (``strategy, reason, rows, rows_left, bytes, epochs, warnings``, and ``estimates`` of what each
    strategy costs, among others), and ``markdown``, the same for people.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan the job as it stands."""
        del context
        with self.opened() as backfill:
            plan, markdown = _plan(backfill)
        self.log.info("%s", markdown)
        return {**plan.model_dump(mode="json"), "markdown": markdown}


class ApproveBackfillOperator(BackfillOperator, ApprovalOperator):
    """
    Shows the plan of a job that is not created yet, and waits for somebody to approve it. (templated: job and these)

    A created job is taken as approved: each run of a schedule may begin with this task, and none asks any more once one
    was approved. While it waits, it holds neither a worker slot nor a trigger. A rejection skips every task downstream,
    whatever its trigger rule.

    Returns the answer and who gave it, or why nobody was asked.

    :param subject: the question; by default with the size of the backfill.
    :param body: what is shown instead of the definition and its plan, in Markdown.
    :param ignore_downstream_trigger_rules: whether a rejection skips tasks that would run after skipped ones, too.
    :param kwargs: further arguments of Airflow's ``ApprovalOperator``, such as ``assigned_users``, ``notifiers``,
        ``response_timeout``, ``defaults`` (the answer when time is out) or ``fail_on_reject``.
    """

    template_fields: Sequence[str] = ("job", "subject", "body")

    def __init__(
        self, *, subject: str = "", body: str | None = None, ignore_downstream_trigger_rules: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(
            subject=subject, body=body, ignore_downstream_trigger_rules=ignore_downstream_trigger_rules, **kwargs
        )

    def execute(self, context: Context) -> Any:
        """Ask, unless the job is created."""
        with self.opened() as backfill:
            if backfill.store.created():
                backfill.require_created()
                first = backfill.store.settings_history()[0]
                reason = f"job {backfill.job.name} was created by {first.requested_by}"
                self.log.info("nobody is asked: %s", reason)
                return {"asked": False, "reason": reason}
            plan, markdown = _plan(backfill)
        self.log.info("%s", markdown)
        self.subject = self.subject or f"Start the backfill of {plan.name}, {text.rows(plan.rows_left)}?"
        self.body = self.body or markdown
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """End as the answer says; with ``fail_on_reject``, no retry asks again."""
        try:
            return super().execute_complete(context, event)
        except HITLRejectException as error:
            raise AirflowFailException("the backfill was rejected; trigger a new run to ask again") from error


def _plan(backfill: Backfill) -> tuple[BackfillPlan, str]:
    """Return a job's plan, and the same in Markdown with the definition above it."""
    from airflow_backfill_provider.planning.plan import make_plan
    from airflow_backfill_provider.planning.plan_text import describe_plan

    plan = make_plan(backfill)
    return plan, f"{definition_markdown(backfill.job)}\n{plan_markdown(describe_plan(plan))}"

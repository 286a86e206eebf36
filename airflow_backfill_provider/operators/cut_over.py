"""The operator that shows what a cut-over would change, and asks for approval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException

from airflow_backfill_provider.hooks.task_run import requester_of
from airflow_backfill_provider.operators.base import SparkBackfillOperator
from airflow_backfill_provider.operators.job import submit

if TYPE_CHECKING:
    from airflow_backfill_provider.jobs.backfill import Backfill

DIFFERENCE_XCOM = "backfill_difference"
"""The XCom with the number of the difference that the question shows."""


class ApproveCutOverOperator(SparkBackfillOperator, ApprovalOperator):
    """
    Shows how what waits for an approval differs from the view that serves, and waits for a user to approve it.

    It is for jobs with ``cut_over: on_approval``, and asks about a first backfill, a rebuild beside the view, or a
    changed query that is ready. If nothing is ready, it asks nothing and succeeds. It compares on Spark first. While it
    waits, it holds neither a worker slot nor a trigger, and epochs go on. The question has numbers of rows, columns and
    a few keys, and no values. A rejection leaves everything as it is: what waits goes on waiting until it is approved,
    reverted or its time is over. (templated: those of its base, and these)

    Returns the answer and the user who gave it, or why it did not ask.

    :param subject: the question; the default says what would go live.
    :param body: Markdown to show instead of the difference.
    :param kwargs: further arguments of Airflow's ``ApprovalOperator``, such as ``assigned_users``, ``notifiers``,
        ``response_timeout``, ``defaults`` (the answer after the timeout) or ``fail_on_reject``.
    """

    template_fields: Sequence[str] = (*SparkBackfillOperator.template_fields, "subject", "body")

    def __init__(self, *, subject: str = "", body: str | None = None, **kwargs: Any) -> None:
        super().__init__(subject=subject, body=body, **kwargs)

    def execute(self, context: Context) -> Any:
        """Compare, and ask, if anything is ready."""
        from airflow_backfill_provider.core.status.difference_text import difference_lines, question
        from airflow_backfill_provider.jobs.planning.markdown import difference_markdown

        with self.opened() as backfill:
            if reason := _why_not_asked(backfill):
                self.log.info("no approval is needed: %s", reason)
                return {"asked": False, "reason": reason}
            submit(self, backfill, "diff", context)
            found = backfill.store.differences.newest()
            if found is None:
                raise AirflowFailException("the application recorded no difference; see its log")
        for line in difference_lines(found):
            self.log.info("%s", line)
        context["ti"].xcom_push(DIFFERENCE_XCOM, found.number)
        self.subject = self.subject or question(found)
        self.body = self.body or difference_markdown(found)
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Record an approval; a rejection changes nothing. With ``fail_on_reject``, no retry asks again."""
        try:
            answer = super().execute_complete(context, event)
        except HITLRejectException as error:
            raise AirflowFailException("the cut-over was rejected; trigger a new DAG run to ask again") from error
        if answer["chosen_options"] == [self.APPROVE]:
            self._approve(context, answer)
        return answer

    def _approve(self, context: Context, answer: Any) -> None:
        from airflow_backfill_provider.jobs import cut_over
        from airflow_backfill_provider.jobs.verification.view_differences import difference_to_approve

        number = context["ti"].xcom_pull(task_ids=self.task_id, key=DIFFERENCE_XCOM)
        user = answer["responded_by_user"]
        # Without an answer in time, the operator's default counts, and nobody gave it.
        approved_by = str(requester_of(context)) if user is None else f"{user['name']} ({requester_of(context)})"
        with self.opened() as backfill:
            found = difference_to_approve(backfill, number)
            cut_over.approve(found, store=backfill.store, approved_by=approved_by)
        self.log.info("%s of job %s is approved by %s", found.subject.kind.words, found.job, approved_by)


def _why_not_asked(backfill: Backfill) -> str:
    """Return why nothing is to be approved; empty if something is."""
    from airflow_backfill_provider.jobs.cut_over import waiting_of

    waiting = waiting_of(backfill.store, backfill.settings())
    if waiting is None:
        return f"nothing of job {backfill.job.name} waits for an approval"
    if waiting.ready_since() is None:
        return f"{waiting.subject.kind.words} of job {backfill.job.name} is not complete yet"
    return ""

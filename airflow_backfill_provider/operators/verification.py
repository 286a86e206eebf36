"""Operators that verify a view and repair what differs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import Context

from airflow_backfill_provider.assets import VERIFIED_VIEWS, emit, verified_view_asset
from airflow_backfill_provider.core.errors import VerificationFailedError
from airflow_backfill_provider.core.status import verification_text
from airflow_backfill_provider.core.status.verified_state import VerifiedState
from airflow_backfill_provider.hooks.task_run import requester_of
from airflow_backfill_provider.operators.arguments import steps_of
from airflow_backfill_provider.operators.base import SparkBackfillOperator

if TYPE_CHECKING:
    from airflow_backfill_provider.jobs.backfill import Backfill

VERIFY, REPAIR = "verify", "repair"
"""The names of the applications in the job, which are also their actions."""

VERIFIED = "verified"
"""The XCom with the result; it exists even if the task fails because the view differs."""


class _ResultOperator(SparkBackfillOperator):
    """
    A task that ends with the result of a verification.

    :param on_difference: whether the task should ``fail``, without retries, or ``succeed`` if the view differs.
    """

    def __init__(self, *, on_difference: Literal["fail", "succeed"] = "fail", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.on_difference = on_difference

    @abstractmethod
    def result(self, backfill: Backfill, context: Context) -> VerifiedState:
        """Do the task's work, and return the result of the verification."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Do the task's work, and report the result of the verification."""
        from airflow_backfill_provider.jobs.verification import verifier

        with self.created() as backfill:
            found = self.result(backfill, context)
            self.log.info("%s", verification_text.compared_line(backfill.job.name, found))
            for key in found.sample:
                self.log.warning("%s", verification_text.key_line(key))
            summary = found.model_dump(mode="json")
            context["ti"].xcom_push(key=VERIFIED, value=summary)
            if found.equal:
                extra = {"event": "verified", "job": backfill.job.name, "epoch": found.epoch, "rows": found.found_rows}
                emit(context, self.outlets, [verified_view_asset(backfill.job)], extra, alias=VERIFIED_VIEWS)
            elif self.on_difference == "fail":
                verifier.require_equal(backfill, verifier.newest_result(backfill))
        return summary

    def verify(self, backfill: Backfill, action: str, context: Context, more: Sequence[str] = ()) -> VerifiedState:
        """
        Run an application that verifies, and return the result.

        :param action: ``verify``, or ``repair`` to repair the differences first.
        :param more: further arguments of the application.
        """
        from airflow_backfill_provider.jobs.verification import verifier

        requester = requester_of(context)
        arguments = [action, "--state", backfill.job.state, "--requester", requester.model_dump_json(), *more]
        self.run_application(backfill, action, "backfill_verify.py", arguments)
        found = verifier.newest_result(backfill)
        # If two task runs repair at the same time, the second one may find nothing left to do.
        if found.pinned.begun_by != requester and not (action == REPAIR and found.equal):
            raise VerificationFailedError(
                f"the application that verifies job {backfill.job.name} ended without an error, but its result is not "
                f"in {backfill.job.state}; running it again is safe"
            )
        return VerifiedState.of(found)


class VerifyMaterializedViewOperator(_ResultOperator):
    """
    Compares a view with its query over the upstream, as of the last committed epoch. (templated: steps, job, …)

    Epochs may run meanwhile. A retry continues with the step in which the try before it died.

    Returns the result as ``verify --json`` prints it. The XCom ``verified`` also has it, even if the task fails. If the
    view is right, the outlet ``VERIFIED_VIEWS`` emits an event of the asset that
    :func:`~airflow_backfill_provider.assets.verified_view_asset` returns.

    :param steps: the number of steps, each of some vnodes; by default it depends on the upstream's rows.
    :param on_difference: whether the task should ``fail``, without retries, or ``succeed`` if the view differs.
    """

    template_fields: Sequence[str] = ("steps", *SparkBackfillOperator.template_fields)

    def __init__(self, *, steps: int | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.steps: Any = steps

    def result(self, backfill: Backfill, context: Context) -> VerifiedState:
        """Verify the view."""
        steps = steps_of(self.steps)
        return self.verify(backfill, VERIFY, context, [] if steps is None else ["--steps", str(steps)])


class RepairWhatDiffersOperator(_ResultOperator):
    """
    Repairs exactly the differences that the newest verification found, and verifies again. (templated: job, …)

    The next epoch carries out the repair. If nothing differs, no Spark is started.

    Returns the result of the new verification, as :class:`VerifyMaterializedViewOperator` does.

    :param on_difference: whether the task should ``fail``, without retries, or ``succeed`` if the view still differs.
    """

    def result(self, backfill: Backfill, context: Context) -> VerifiedState:
        """Repair the differences."""
        from airflow_backfill_provider.jobs.verification import verifier

        before = verifier.newest_result(backfill)
        if before.equal and not self.waited_for(REPAIR):
            self.log.info("nothing differs; there is nothing to repair")
            return VerifiedState.of(before)
        return self.verify(backfill, REPAIR, context)

"""Operators of mutations, which change a job's settings and take effect with the next barrier. None starts Spark."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context, XComArg

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.hooks.task_run import requester_of
from airflow_backfill_provider.operators.arguments import (
    keys_of,
    pace_of,
    parallelism_of,
    rate_limit_of,
    target_of,
    vnodes_of,
)
from airflow_backfill_provider.operators.base import BackfillOperator
from airflow_backfill_provider.operators.summaries import settings_summary

if TYPE_CHECKING:
    from airflow_backfill_provider.jobs.backfill import Backfill


KEEP = "keep"
"""Leaves a setting as it is, where ``None`` is a value."""


class _MutationOperator(BackfillOperator):
    """A task that changes the settings; does nothing if they already have the value."""

    @abstractmethod
    def mutate(self, backfill: Backfill, requested_by: str) -> JobSettings:
        """Change the settings and return those in force."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Change the settings."""
        with self.opened() as backfill:
            backfill.require_ours()
            settings = self.mutate(backfill, str(requester_of(context)))
        self.log.info("settings %d of job %s are in force", settings.sequence, settings.job["name"])
        return settings_summary(settings)


class PauseBackfillOperator(_MutationOperator):
    """
    Pauses a job: epochs read no snapshot from the next barrier on, but still apply changes.

    Returns the job's settings in force.
    """

    def mutate(self, backfill: Backfill, requested_by: str) -> JobSettings:
        """Pause."""
        from airflow_backfill_provider.jobs import mutations

        return mutations.pause_job(store=backfill.store, requested_by=requested_by)


class ResumeBackfillOperator(_MutationOperator):
    """
    Resumes a job: epochs read the snapshot again from the next barrier on.

    Returns the job's settings in force.
    """

    def mutate(self, backfill: Backfill, requested_by: str) -> JobSettings:
        """Resume."""
        from airflow_backfill_provider.jobs import mutations

        return mutations.resume_job(store=backfill.store, requested_by=requested_by)


class ThrottleBackfillOperator(_MutationOperator):
    """
    Sets the rate limit and the pace of a job from the next barrier on. (templated: all of them, and job)

    Returns the job's settings in force.

    :param rate_limit: the most snapshot rows that an epoch reads; ``None`` is unlimited, 0 reads none, ``auto`` follows
        the measured speed.
    :param target_epoch_seconds: how long an epoch should take with ``auto``; ``None`` keeps what is in force, or 60.
    :param max_rows_per_second: the most snapshot rows per second of a run of several epochs; ``None`` is unlimited, and
        ``"keep"`` leaves it as it is.
    """

    template_fields: Sequence[str] = (
        "rate_limit",
        "target_epoch_seconds",
        "max_rows_per_second",
        *BackfillOperator.template_fields,
    )

    def __init__(
        self,
        *,
        rate_limit: int | str | XComArg | None,
        target_epoch_seconds: float | str | XComArg | None = None,
        max_rows_per_second: int | str | XComArg | None = KEEP,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rate_limit = rate_limit
        self.target_epoch_seconds = target_epoch_seconds
        self.max_rows_per_second = max_rows_per_second

    def mutate(self, backfill: Backfill, requested_by: str) -> JobSettings:
        """Throttle."""
        from airflow_backfill_provider.jobs import mutations

        pace = self.max_rows_per_second
        return mutations.throttle_job(
            rate_limit_of(self.rate_limit),
            store=backfill.store,
            requested_by=requested_by,
            target_epoch_seconds=target_of(self.target_epoch_seconds),
            max_rows_per_second=mutations.Unchanged.KEPT if pace == KEEP else pace_of(pace),
        )


class RescaleBackfillOperator(_MutationOperator):
    """
    Sets how many parallel task runs share an epoch, from the next barrier on. (templated: parallelism, job)

    Needs a strategy whose chunks task runs can share: all but ``no_shuffle`` and ``cdc``. Returns the job's settings in
    force.

    :param parallelism: the number of task runs, from 1 to the job's ``vnode_count``.
    """

    template_fields: Sequence[str] = ("parallelism", *BackfillOperator.template_fields)

    def __init__(self, *, parallelism: int | str | XComArg, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parallelism = parallelism

    def mutate(self, backfill: Backfill, requested_by: str) -> JobSettings:
        """Rescale."""
        from airflow_backfill_provider.jobs import mutations

        return mutations.rescale_job(parallelism_of(self.parallelism), store=backfill.store, requested_by=requested_by)


class RepairBackfillOperator(_MutationOperator):
    """
    Asks the next epoch to write chosen rows of the view again, once. (templated: vnodes, keys, job)

    Rows that were not read yet stay unread. Run an epoch to carry out the repair. Returns the job's settings in force.

    :param vnodes: numbers and ranges, such as ``"3, 8-15"`` or ``[3, "8-15"]``.
    :param keys: single keys, each a value, or a list with a value for each key column.
    """

    template_fields: Sequence[str] = ("vnodes", "keys", *BackfillOperator.template_fields)

    def __init__(
        self,
        *,
        vnodes: Sequence[int | str] | str | XComArg | None = None,
        keys: Sequence[Any] | XComArg | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vnodes = vnodes
        self.keys = keys

    def mutate(self, backfill: Backfill, requested_by: str) -> JobSettings:
        """Request the repair."""
        from airflow_backfill_provider.protocol.repairs import ask_for_repair_of

        return ask_for_repair_of(backfill, vnodes_of(self.vnodes), keys_of(self.keys), requested_by=requested_by)


class CancelBackfillOperator(BackfillOperator):
    """
    Stops a job for good: no further barrier is injected, and the view stays as the last epoch left it.

    Of a job that was never created, it removes what a creation that died left in its database.

    Returns the job's settings in force; of a job that was never created, its ``name`` and ``cancelled``.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Cancel."""
        from airflow_backfill_provider.jobs import mutations

        with self.opened() as backfill:
            settings = mutations.cancel(backfill, requested_by=str(requester_of(context)))
        if settings is None:
            self.log.info("job %s was not created; what was left of it is removed", backfill.job.name)
            return {"name": backfill.job.name, "cancelled": True}
        self.log.info("settings %d of job %s are in force", settings.sequence, settings.job["name"])
        return settings_summary(settings)

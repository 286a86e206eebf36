"""Operators that mark a materialized view finished and emit its asset's event."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import NotFinishedError
from airflow_backfill_provider.hooks.task_run import has_failed, requester_of
from airflow_backfill_provider.operators.base import BackfillOperator
from airflow_backfill_provider.operators.summaries import settings_summary

if TYPE_CHECKING:
    from airflow_backfill_provider.jobs.backfill import Backfill


class FinishMaterializedViewOperator(BackfillOperator):
    """
    Marks the materialized view finished, once every vnode is Completed. Idempotent.

    The events of its ``outlets`` have ``event`` (``finished``), ``job``, ``epoch`` (the one that completed the last
    vnode), ``from_version`` and ``to_version`` (of the upstream), ``view_version``, ``rows`` and ``progress``. The
    outlet :data:`~airflow_backfill_provider.assets.MATERIALIZED_VIEWS` emits them for both assets of the view.

    Returns the job's settings in force.

    :raises AirflowException: if not every vnode is Completed; a retry may succeed.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Finish the view."""
        with self.created() as backfill:
            settings = self.finish(backfill, context)
            barriers, commits = backfill.store.log(since_epoch=settings.finished_epoch or 0)
            self.emit_finish(context, backfill, barriers[0], commits[0])
        self.log.info("%s is finished as of epoch %s", backfill.job.materialized_view, settings.finished_epoch)
        return settings_summary(settings)

    def finish(self, backfill: Backfill, context: Context) -> JobSettings:
        """Finish the view and return the settings in force."""
        from airflow_backfill_provider import protocol

        return protocol.finish_job(store=backfill.store, requested_by=str(requester_of(context)))


class FinishMaterializedViewWhenDueOperator(FinishMaterializedViewOperator):
    """
    Like its base class, but skipped if not every vnode is Completed, or if another task run has finished the view.

    It is for scheduled DAGs, which run before and long after the view is finished: only one DAG run emits the asset's
    event. If the view was finished from the command line, or by a task run that failed then, the next DAG run emits it.
    """

    def finish(self, backfill: Backfill, context: Context) -> JobSettings:
        """Finish the view, if that is due."""
        from airflow_backfill_provider import protocol

        requested_by = str(requester_of(context))
        try:
            settings = super().finish(backfill, context)
        except NotFinishedError as error:
            raise AirflowSkipException(str(error)) from error
        finisher = protocol.announce_finish(
            store=backfill.store, requested_by=requested_by, has_failed=partial(has_failed, context)
        )
        if finisher != requested_by:
            raise AirflowSkipException(f"the view was finished as of epoch {settings.finished_epoch} by {finisher}")
        return settings

"""Operators that mark a materialized view finished, and tell other DAGs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_backfill_provider.core.errors import NotFinishedError
from airflow_backfill_provider.core.settings import JobSettings
from airflow_backfill_provider.hooks.task_run import requester_of
from airflow_backfill_provider.operators.base import BackfillOperator
from airflow_backfill_provider.operators.summaries import settings_summary

if TYPE_CHECKING:
    from airflow_backfill_provider.protocol.backfill import Backfill


class FinishMaterializedViewOperator(BackfillOperator):
    """
    Marks the materialized view finished: only once every vnode is Completed, and idempotently.

    The events of its ``outlets`` say ``event`` (``finished``), ``job``, ``epoch`` (the one that completed the last
    vnode), ``from_version`` and ``to_version`` (of the upstream), ``view_version``, ``rows`` and ``progress``. Without
    an asset among them, :data:`~airflow_backfill_provider.assets.MATERIALIZED_VIEWS` tells of both assets of the view.

    Returns the job's settings in force.

    :raises AirflowException: if the backfill still goes on; a retry may find it finished.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Finish the view."""
        with self.created() as backfill:
            settings = self.finish(backfill, str(requester_of(context)))
            barriers, commits = backfill.store.log(since_epoch=settings.finished_epoch or 0)
            self.emit_finish(context, backfill, barriers[0], commits[0])
        self.log.info("%s is finished as of epoch %s", backfill.job.materialized_view, settings.finished_epoch)
        return settings_summary(settings)

    def finish(self, backfill: Backfill, requested_by: str) -> JobSettings:
        """Finish the view and return the settings in force."""
        from airflow_backfill_provider import protocol

        return protocol.finish_job(store=backfill.store, requested_by=requested_by)


class FinishMaterializedViewWhenDueOperator(FinishMaterializedViewOperator):
    """
    As its base, but skipped while there is nothing to finish: the backfill still goes on, or another task run did it.

    For DAGs that run on a schedule, before and long after the view is finished: one run finishes it, so that the asset
    event comes once. Of a view that was finished from the command line the first run tells that comes after.
    """

    def finish(self, backfill: Backfill, requested_by: str) -> JobSettings:
        """Finish the view, if that is due."""
        from airflow_backfill_provider import protocol

        try:
            settings = super().finish(backfill, requested_by)
        except NotFinishedError as error:
            raise AirflowSkipException(str(error)) from error
        finisher = protocol.tell_of_finish(store=backfill.store, requested_by=requested_by)
        if finisher != requested_by:
            raise AirflowSkipException(f"the view was finished as of epoch {settings.finished_epoch} by {finisher}")
        return settings

"""What a job that keeps former rows refuses, because its upstream cannot tell them, or not any longer."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.keep import ValidBy
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.lake.log.commit_times import recorded_times
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.delta.versions import version_of
from airflow_backfill_provider.state.store import BackfillStore


def require_nothing_lost(settings: JobSettings, store: BackfillStore, *, discard_history: bool) -> None:
    """
    Refuse to replace a view that keeps former rows, unless they may be lost.

    :param settings: the settings in force.
    :param discard_history: whether the user said so.
    :raises MaterializedViewError: with what would be lost.
    """
    keep = settings.definition.keep
    has_rows = settings.first_rows is not None or store.last_epoch() > settings.base_epoch
    if discard_history or not keep.keeps_former_rows or not has_rows:
        return
    raise MaterializedViewError(
        f"materialized_view: the view of job {settings.job['name']} keeps former rows (keep: {keep}), which a rebuild "
        "or its revert would lose for good; say --discard-history on the command line if that is meant, or create "
        "another job with another materialized_view"
    )


def require_times(job: BackfillJob, begin: Offset, upstream: Source, storage_options: Mapping[str, str] | None) -> None:
    """
    Refuse to date the rows of a view by commits that record no time, or none that is later than the one before.

    :param begin: the version that the view begins at.
    :raises UpstreamError: with the version.
    """
    if job.valid_by is ValidBy.COMMIT_TIME:
        log = DeltaLog(job.upstream.location, storage_options)
        recorded_times(log, version_of(begin) - 1, version_of(upstream.latest()))

"""
Rows that an upstream to which rows are only appended has lost, although a view of groups counts them.

The state of such a group is right, and further rows are added to it. But nobody can compute the group from its rows
again, so it can be neither verified nor repaired. Rows of a view are different: those that are left are compared, and
a repair keeps the others.
"""

from __future__ import annotations

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import ChangeFeedGapError
from airflow_backfill_provider.core.kinds import SHAPES
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.split_offsets import window


def why_not_computed_again(settings: JobSettings, upstream: Source, up_to: Offset) -> str:
    """
    Return why a job's groups cannot be computed from their rows again; an empty text if they can.

    :param upstream: the job's upstream.
    :param up_to: the offset up to which the groups have rows.
    """
    # The shape first: to open the splits of a folder reads its log.
    if SHAPES.named(settings.shape).has_keys or (splits := upstream.splits) is None:
        return ""
    lost = splits.lost([places for places in window(settings.first_offset, up_to) if places.size])
    return lost and (
        f"{lost}. The view of job {settings.job['name']} counts these rows, so its groups can no longer be computed "
        "again, and can be neither verified nor repaired. Epochs go on; a rebuild begins with the rows that are left"
    )


def require_computed_again(settings: JobSettings, upstream: Source, up_to: Offset) -> None:
    """
    Refuse to compute a job's groups from rows of which some are gone; the parameters are those of the reason.

    :raises ChangeFeedGapError: with what is gone.
    """
    if problem := why_not_computed_again(settings, upstream, up_to):
        raise ChangeFeedGapError(problem)


def require_repairable(backfill: Backfill) -> None:
    """
    Refuse a repair of groups that cannot be computed again.

    :raises ChangeFeedGapError: with what is gone.
    """
    settings = backfill.settings()
    newest = backfill.store.newest_barrier(settings)
    if newest is not None:
        require_computed_again(settings, backfill.upstream, newest.upstream.to_offset)

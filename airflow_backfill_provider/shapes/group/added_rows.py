"""
Groups of rows that are only appended: a fold adds these rows to the groups, and nothing reads them again.

So they may be gone by then, as a topic's records are. What would have to read them again is refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.refresh import THROUGH_A_ROW_VIEW, Refresh

if TYPE_CHECKING:
    from airflow_backfill_provider.core.job.definition import BackfillJob
    from airflow_backfill_provider.shapes.group.query import GroupQuery


def require_added(query: GroupQuery, job: BackfillJob) -> None:
    """
    Refuse groups of rows that are only appended, if an epoch could not add these rows to the groups that the view has.

    :raises InvalidJobError: with what to do.
    """
    if job.refresh is not Refresh.INCREMENTAL:
        raise InvalidJobError(
            f"refresh: {job.refresh} computes a view from all rows of its upstream, and rows of "
            f"{job.upstream.location} may be gone by then; leave refresh out, or {THROUGH_A_ROW_VIEW}"
        )
    if (reason := query.why_not_folded) is not None:
        raise not_added(reason, job.upstream.location)


def not_added(reason: object, location: str) -> InvalidJobError:
    """
    Return the error for groups to which rows cannot be added.

    :param reason: why not, as a sentence.
    :param location: the upstream's location.
    """
    return InvalidJobError(
        f"query: rows of {location} are only appended, so they are added to the state of their groups and not read "
        f"again, but {reason}; otherwise {THROUGH_A_ROW_VIEW}"
    )

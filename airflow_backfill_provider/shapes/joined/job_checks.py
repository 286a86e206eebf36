"""What a job with a query over joins or unions cannot ask for, whichever shape the query has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import RELATION
from airflow_backfill_provider.core.refresh import WAY_OUT

if TYPE_CHECKING:
    from airflow_backfill_provider.core.job.definition import BackfillJob
    from airflow_backfill_provider.shapes.joined.over_branches import QueryOverBranches


def require_upstreams(job: BackfillJob, query: QueryOverBranches) -> None:
    """
    Refuse a job whose query joins, and that does not name its tables.

    :raises InvalidJobError: with what to do.
    """
    if query.joins and not job.upstreams:
        raise InvalidJobError(
            f"upstream: the query joins, so name its tables under upstreams, a single one, too: upstreams: "
            f"{{{RELATION}: …}}; {WAY_OUT}"
        )


def require_branches(job: BackfillJob, query: QueryOverBranches) -> None:
    """
    Refuse a union's lead that leads no branch, and a part of one of its upstreams.

    :raises InvalidJobError: with the field, and what to do.
    """
    if not query.parsed.is_union:
        return
    if job.lead and job.lead.lower() not in {name.lower() for name in query.leads}:
        raise InvalidJobError(
            f"lead: {job.lead} leads no branch of the union; use {' or '.join(query.leads)}, or leave it out"
        )
    bounds = job.restrict_to.keys
    if job.restrict_to.vnodes or bounds.after is not None or bounds.up_to is not None:
        raise InvalidJobError(
            "restrict_to: a union has rows of several leads, and keys or vnodes of one would restrict its branches "
            "alone; write a WHERE in each branch"
        )

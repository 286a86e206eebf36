"""
Let the views of queries with a star have the columns that come to their upstreams.

Only Spark can check the query with these columns. So the epoch that meets them leaves the view as it is, and what runs
the epoch then changes the job as ``airflow-backfill change`` does. The next epoch writes the columns.
"""

from __future__ import annotations

from airflow_backfill_provider.core.clock import Clock, utc_now
from airflow_backfill_provider.core.epoch.engine import Engine
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.changed_query import make_change, may_change, propose_change

FOLLOWED = "star: follow"
"""Who asks for the change."""


def follow_stars(backfill: Backfill, engine: Engine, *, clock: Clock = utc_now) -> str:
    """
    Change a job whose stars follow columns that came to its upstreams since; its epochs stay committed in any case.

    :param engine: what ran the epoch.
    :returns: what happens next, or why the view does not get the columns; empty if none came.
    """
    store = backfill.store
    settings = store.settings()
    if not settings.definition.follows_stars or not may_change(settings):
        return ""
    upstream = backfill.upstream
    try:
        proposed = propose_change(settings.definition, store=store, upstream=upstream, clock=clock)
        if not proposed.came or proposed.is_known:
            return ""
        make_change(proposed, store=store, upstream=upstream, engine=lambda: engine, requested_by=FOLLOWED, clock=clock)
    except BackfillError as error:
        return f"the view does not get the columns that came to its upstream: {error}"
    names = ", ".join(proposed.came)
    if proposed.needs_approval:
        return f"{names} came to the upstream; the view gets it once somebody approves the change"
    return f"{names} came to the upstream; the next epoch writes the whole view with it"

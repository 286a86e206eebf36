"""Counts the changed rows of the upstreams beside the one that leads, by their logs, to warn of costly ones."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.refresh_cost import JOIN
from airflow_backfill_provider.protocol.costly_changes import CostlyChanges
from airflow_backfill_provider.shapes import resolved_query_of
from airflow_backfill_provider.shapes.several import QueryOverSeveral
from airflow_backfill_provider.shapes.spread import touched_by
from airflow_backfill_provider.sources import Source, open_source


def costly_changes_of(
    settings: JobSettings, barrier: Barrier, upstream: Source, storage_options: Mapping[str, str] | None
) -> tuple[str, ...]:
    """
    Return the warnings of an epoch whose changes of a dimension touch very much of a finished view.

    :param barrier: the epoch, before it is pinned.
    :param upstream: the upstream that leads.
    """
    windows = barrier.changed_others
    if barrier.was_unfinished or barrier.computes_whole or not windows:
        return ()
    query = resolved_query_of(settings)
    if not isinstance(query, QueryOverSeveral):
        return ()
    job = settings.definition
    rows = {window.relation: window.row_count for window in barrier.windows}
    # The windows of leads have the rows of which the finished view was read.
    rows[job.lead_name] = upstream.row_count(barrier.upstream.to_offset)
    for name in query.further:
        rows[name] = open_source(job.others[name], storage_options).row_count(barrier.window(name).to_offset)
    branches = query.branches(rows, lambda _upstream, _columns: None)
    joined = frozenset(name for branch in branches for name in branch.spreads)
    if not joined:
        return ()
    upkeep = query.with_state(settings.state_columns).upkeep(created=True)
    costly = CostlyChanges(
        leads=query.leads,
        rows=sum(rows[branch.lead] for branch in branches),
        spreads={name: touched_by(branches, name) for name in windows if name in joined},
        cost=JOIN if upkeep is None else upkeep.cost,
    )
    changed = {}
    for name, limit in costly.limits.items():
        files = open_source(settings.definition.others[name], storage_options).numbered_files
        if files is not None:
            changed[name] = files.changed_rows(windows[name].from_offset, windows[name].to_offset, at_most=limit)
    return tuple(costly.warnings(changed))

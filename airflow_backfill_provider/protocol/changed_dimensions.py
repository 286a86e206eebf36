"""Counts the changed rows of the upstreams beside the one that leads, by their logs, to warn of costly ones."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.refresh_cost import JOIN
from airflow_backfill_provider.protocol.costly_changes import CostlyChanges
from airflow_backfill_provider.shapes import resolved_query_of
from airflow_backfill_provider.shapes.several import QueryOverSeveral
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
    lead = settings.definition.lead_name
    rows = {window.relation: window.row_count for window in barrier.windows}
    # Its window has the rows of which the finished view was read.
    rows[lead] = upstream.row_count(barrier.upstream.to_offset)
    spreads = query.spreads(rows, lambda _upstream, _columns: None)
    if not spreads:
        return ()
    upkeep = query.with_state(settings.state_columns).upkeep(created=True)
    costly = CostlyChanges(
        lead=lead,
        rows=rows[lead],
        spreads={name: spread for name, spread in spreads.items() if name in windows},
        cost=JOIN if upkeep is None else upkeep.cost,
    )
    changed = {}
    for name, limit in costly.limits.items():
        files = open_source(settings.definition.others[name], storage_options).numbered_files
        if files is not None:
            changed[name] = files.changed_rows(windows[name].from_offset, windows[name].to_offset, at_most=limit)
    return tuple(costly.warnings(changed))

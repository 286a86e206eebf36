"""What an epoch of a job with ``refresh: auto`` computes: decided by the log of the upstream, and pinned."""

from __future__ import annotations

from airflow_backfill_provider.core.refresh import PinnedRefresh, Refresh
from airflow_backfill_provider.core.refresh_cost import break_even, cheaper_refresh
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.protocol.decision import EpochInputs, NextEpoch
from airflow_backfill_provider.shapes import query_of
from airflow_backfill_provider.sources.base import Source


def chosen_refresh(
    inputs: EpochInputs, decided: NextEpoch, upstream: Source, to_offset: Offset
) -> PinnedRefresh | None:
    """
    Return what an epoch with changes computes.

    :returns: ``None`` if the job leaves no choice, or its view is not finished, so that some history is unread.
    """
    job = inputs.settings.definition
    if job.refresh is not Refresh.AUTO or not decided.needs_changes or not inputs.state.completed:
        return None
    upkeep = query_of(job).with_state(inputs.settings.state_columns).upkeep(created=True)
    if upkeep is None:
        return None
    rows = upstream.row_count(to_offset)
    limit = break_even(upkeep.cost, rows)
    files = upstream.numbered_files
    # Without a limit to reach, no commit of the window is read.
    changes = None
    if files is not None and limit:
        changes = files.changed_rows(decided.changes_after, to_offset, at_most=limit)
    return cheaper_refresh(upkeep.cost, rows=rows, changes=changes)

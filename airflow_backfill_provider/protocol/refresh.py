"""What an epoch of a job with ``refresh: auto`` computes: decided by the logs of the upstreams, and pinned."""

from __future__ import annotations

import math
from collections.abc import Mapping

from airflow_backfill_provider.core.job.sql import RELATION
from airflow_backfill_provider.core.refresh import PinnedRefresh, Refresh
from airflow_backfill_provider.core.refresh_cost import break_even, cheaper_refresh
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.protocol.decision import EpochInputs, NextEpoch
from airflow_backfill_provider.protocol.other_windows import OtherWindows
from airflow_backfill_provider.shapes import resolved_query_of
from airflow_backfill_provider.shapes.several import QueryOverSeveral
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.base import Source

_ONE = OtherWindows()


def chosen_refresh(
    inputs: EpochInputs,
    decided: NextEpoch,
    upstream: Source,
    to_offset: Offset,
    others: OtherWindows = _ONE,
    storage_options: Mapping[str, str] | None = None,
) -> PinnedRefresh | None:
    """
    Return what an epoch with changes computes.

    :param upstream: the upstream, or the one that leads.
    :param to_offset: the end of its window.
    :param others: the windows of the others, if there are several.
    :param storage_options: options of the object store, for these.
    :returns: ``None`` if the job leaves no choice, or its view is not finished, so that some history is unread.
    """
    settings = inputs.settings
    job = settings.definition
    if job.refresh is not Refresh.AUTO or not decided.needs_changes or not inputs.state.completed:
        return None
    query = resolved_query_of(settings)
    upkeep = query.with_state(settings.state_columns).upkeep(created=True)
    if upkeep is None:
        return None
    rows = {job.lead_name: upstream.row_count(to_offset)}
    rows |= {window.relation: window.row_count for window in others.windows}
    of_leads = sum(rows[name] for name in _as_defined(query.leads, rows))
    limit = break_even(upkeep.cost, of_leads)
    # Without a limit to reach, no commit of the windows is read.
    if not limit:
        return cheaper_refresh(upkeep.cost, rows=of_leads, changes=None)
    affected_by = query.affected_by(rows) if isinstance(query, QueryOverSeveral) else {RELATION: 1.0}
    changed = {job.lead_name: (upstream, decided.changes_after, to_offset)} if to_offset > decided.changes_after else {}
    for window in others.windows:
        if window.is_wide:
            source = open_source(job.others[window.relation], storage_options)
            changed[window.relation] = source, window.from_offset, window.to_offset
    return cheaper_refresh(upkeep.cost, rows=of_leads, changes=_affected(changed, affected_by, at_most=limit))


def _affected(
    changed: Mapping[str, tuple[Source, Offset, Offset]], affected_by: Mapping[str, float], *, at_most: int
) -> int | None:
    """
    Return about how many rows of leads the changes of windows affect; ``None`` if an upstream does not tell.

    :param changed: the upstreams with changes, and the begins and ends of their windows.
    :param affected_by: how many rows of leads a changed row of each affects.
    :param at_most: where to stop counting.
    """
    total = 0.0
    for name, (source, after, up_to) in changed.items():
        files = source.numbered_files
        if files is None or name not in affected_by:
            return None
        if each := affected_by[name]:
            total += each * files.changed_rows(after, up_to, at_most=max(math.ceil((at_most - total) / each), 1))
        if total >= at_most:
            return at_most
    return round(total)


def _as_defined(names: tuple[str, ...], defined: Mapping[str, int]) -> list[str]:
    """Return the upstreams that a query names, as the job's definition does."""
    known = {name.lower(): name for name in defined}
    return [known[name.lower()] for name in names]
